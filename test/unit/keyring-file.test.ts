import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readKeyRingFile, writeKeyRingFile } from '../../cli/data-dir/key-ring-file.ts';
import { generateKeySpec } from '../../shared/keyring/keyring.ts';

describe('the key ring file of a data directory', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-keyring-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('is written for its owner only, and read again', async () => {
    expect(await readKeyRingFile(folder)).toBeUndefined();
    await writeKeyRingFile(folder, generateKeySpec());
    expect((await stat(join(folder, 'credentials.key'))).mode & 0o777).toBe(0o600);
    expect(await readKeyRingFile(folder)).toBeDefined();
  });

  it.each([0o640, 0o604, 0o644, 0o660])(
    'is refused with permissions %o and the command that fixes them',
    async (mode) => {
      await writeKeyRingFile(folder, generateKeySpec());
      await chmod(join(folder, 'credentials.key'), mode);
      await expect(readKeyRingFile(folder)).rejects.toThrow(
        expect.objectContaining({
          code: 'KEY_RING_EXPOSED',
          message: expect.stringContaining(`run \`chmod 600 ${join(folder, 'credentials.key')}\``),
        }),
      );
    },
  );
});
