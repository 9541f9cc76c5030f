import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { stopProcess } from '../support/stop-process.ts';
import { waitFor } from '../support/wait.ts';

/**
 * A program with 4 threads that each write 1 byte per loop, and an idle main thread, like a
 * broker's.
 */
const WRITER = `
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { openSync, writeSync } = require('node:fs');
if (isMainThread) for (let n = 0; n < 4; n++) new Worker(__filename, { workerData: process.argv[2] });
else for (const file = openSync(workerData, 'a'); ; ) writeSync(file, '.');
`;

test('a stopped process runs no thread until it is continued', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-test-stop-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const [script, output] = [join(directory, 'writer.cjs'), join(directory, 'output')];
  await writeFile(script, WRITER);
  const writer = spawn(process.execPath, [script, output], { stdio: 'inherit' });
  onTestFinished(() => void writer.kill('SIGKILL'));
  const written = async () => (await stat(output)).size;
  await waitFor(written, { timeoutMs: 20_000, what: 'the first byte' });

  for (let round = 0; round < 20; round++) {
    await stopProcess(writer.pid!);
    const bytes = await written();
    await delay(20);
    expect(await written()).toBe(bytes);
    writer.kill('SIGCONT');
    await waitFor(async () => (await written()) > bytes, { timeoutMs: 10_000, what: 'another byte' });
  }
}, 60_000);

test('stopping a process that has exited is not an error', async () => {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  await stopProcess(child.pid!);
});
