import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { ROOT } from '../support/program.ts';

it('a command whose output disk is full reports it in one line and exits with 1', async () => {
  const full = await open('/dev/full', 'w');
  onTestFinished(() => full.close());
  const child = spawn(process.execPath, [`${ROOT}dist/cli/main.js`, '--help'], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', full.fd, 'pipe'],
  });
  let stderr = '';
  child.stderr!.on('data', (bytes) => {
    stderr += bytes;
  });
  await once(child, 'close');
  expect(stderr).toMatch(/^sluice: standard output cannot be written: ENOSPC.*\n$/);
  expect(child.exitCode).toBe(1);
});
