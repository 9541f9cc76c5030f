import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, errorCode } from '../../shared/errors.ts';
import { createKeyRing, type KeyRing } from '../../shared/keyring/keyring.ts';
import { PRIVATE, replaceFile } from './replace-file.ts';

const FILE = 'credentials.key';
/** Permission bits of the group and of other users. */
const OTHERS = 0o077;

/**
 * Reads the key ring of an embedded instance from a file in the form of SLUICE_CREDENTIALS_KEYS.
 * Returns undefined if there is no such file. Rejects if the file cannot be read. Throws AppErrors
 * `KEY_RING_EXPOSED` (other users may read the file) and `KEY_RING_INVALID`.
 */
export async function readKeyRingFile(dataDir: string): Promise<KeyRing | undefined> {
  const file = join(dataDir, FILE);
  let spec: string;
  try {
    await refuseExposed(file);
    spec = await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  return createKeyRing(spec, keyRingFileName(dataDir));
}

/** Returns the name of the key ring's file for messages. */
export function keyRingFileName(dataDir: string): string {
  return `${FILE} in ${dataDir}`;
}

/** Writes the key ring atomically, readable by its owner only. */
export async function writeKeyRingFile(dataDir: string, spec: string): Promise<void> {
  await replaceFile(join(dataDir, FILE), `${spec}\n`, PRIVATE);
}

async function refuseExposed(file: string): Promise<void> {
  // Windows has no permission bits.
  if (process.platform === 'win32') return;
  const { mode } = await stat(file);
  if ((mode & OTHERS) === 0) return;
  throw new AppError(
    'KEY_RING_EXPOSED',
    `${file} may be read by others than its owner (permissions ${(mode & 0o777).toString(8)}): run \`chmod 600 ${file}\`; ` +
      'if others may have read it, rotate the key as docs/operations.md describes under "The key ring leaks"',
  );
}
