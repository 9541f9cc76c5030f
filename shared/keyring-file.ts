import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from './errors.ts';

const FILE = 'credentials.key';

/**
 * The key ring of an embedded instance, in the form of SLUICE_CREDENTIALS_KEYS; undefined where its data directory holds
 * none. Rejects when the file cannot be read.
 */
export async function readKeyRingFile(dataDir: string): Promise<string | undefined> {
  try {
    return (await readFile(join(dataDir, FILE), 'utf8')).trim();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes the ring, readable by its owner only. A start that is killed here leaves no half of a key. */
export async function writeKeyRingFile(dataDir: string, spec: string): Promise<void> {
  const file = join(dataDir, FILE);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${spec}\n`, { mode: 0o600, flush: true });
  await rename(temporary, file);
}
