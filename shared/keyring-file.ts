import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from './errors.ts';
import { createKeyRing, type KeyRing } from './keyring.ts';

const FILE = 'credentials.key';

/**
 * The key ring of an embedded instance, which its file has in the form of SLUICE_CREDENTIALS_KEYS; undefined where its data
 * directory holds none. Rejects when the file cannot be read, and with AppError `KEY_RING_INVALID`.
 */
export async function readKeyRingFile(dataDir: string): Promise<KeyRing | undefined> {
  let spec: string;
  try {
    spec = await readFile(join(dataDir, FILE), 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  return createKeyRing(spec, keyRingFileName(dataDir));
}

/** How messages name that file. */
export function keyRingFileName(dataDir: string): string {
  return `${FILE} in ${dataDir}`;
}

/** Writes the ring, readable by its owner only. A start that is killed here leaves no half of a key. */
export async function writeKeyRingFile(dataDir: string, spec: string): Promise<void> {
  const file = join(dataDir, FILE);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${spec}\n`, { mode: 0o600, flush: true });
  await rename(temporary, file);
}
