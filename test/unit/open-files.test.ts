import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { openFilesLimit } from '../../shared/process/load-program.ts';
import { ROOT } from '../support/program.ts';

// Fewer files than Node 20 needs to load the modules.
describe.each([
  ['embedded', 'Sluice'],
  ['gateway', 'The gateway'],
  ['workers', 'The worker'],
  ['admin', 'The admin listener'],
  ['cli', 'sluice'],
])('dist/%s/main.js with 64 open files', (part, name) => {
  it('says in one sentence what to do', async () => {
    const program = join(ROOT, 'dist', part, 'main.js');
    const args = ['-c', 'ulimit -n 64 && exec "$0" "$1" lag', process.execPath, program];
    await expect(promisify(execFile)('sh', args, { cwd: ROOT })).rejects.toMatchObject({
      code: 1,
      stderr: `${name} cannot start: only 64 open files are permitted: raise the limit, for example with \`ulimit -n 8192\`\n`,
    });
  });
});

it('the limit of open files is that of this process', async () => {
  const { stdout } = await promisify(execFile)('sh', ['-c', 'ulimit -n']);
  expect(String(openFilesLimit() ?? 'unlimited')).toBe(stdout.trim());
});
