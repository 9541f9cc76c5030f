import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../shared/errors.ts';
import { generateKeySpec } from '../shared/keyring.ts';

const FILE = 'credentials.key';

/**
 * The key ring of this data directory, in the form of SLUICE_CREDENTIALS_KEYS; made at the first start and readable by
 * its owner only. Without it stored credentials are lost, so it is never made anew over one that is there.
 */
export async function ensureCredentialsKey(dataDir: string): Promise<string> {
  const file = join(dataDir, FILE);
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  const spec = generateKeySpec();
  // Written aside and renamed: a start that is killed here leaves no half of a key.
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${spec}\n`, { mode: 0o600, flush: true });
  await rename(temporary, file);
  return spec;
}
