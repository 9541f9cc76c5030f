import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openCluster } from '../../embedded/postgres/cluster.ts';

it.each([
  [
    'programs "here"',
    'data',
    /^Postgres cannot use ".*programs \\"here\\"": move Sluice to a path without double quotes, /,
  ],
  [
    'programs',
    'da\nta',
    /^Postgres cannot use ".*da\\nta.*": set SLUICE_DATA_DIR to a path without line breaks$/,
  ],
] as const)(
  'the embedded Postgres refuses paths that initdb cannot use: %j, %j',
  async (programs, data, message) => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-paths-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const binaries = { directory: join(folder, programs), majorVersion: '18' };
    await expect(openCluster(join(folder, data), binaries, {})).rejects.toMatchObject({
      code: 'DATA_DIR_UNUSABLE',
      message: expect.stringMatching(message),
    });
  },
);
