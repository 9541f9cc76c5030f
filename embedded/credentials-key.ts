import { generateKeySpec } from '../shared/keyring.ts';
import { readKeyRingFile, writeKeyRingFile } from '../shared/keyring-file.ts';

/**
 * The key ring of this data directory, in the form of SLUICE_CREDENTIALS_KEYS; made at the first start. Without it stored
 * credentials are lost, so it is never made anew over one that is there.
 */
export async function ensureCredentialsKey(dataDir: string): Promise<string> {
  const before = await readKeyRingFile(dataDir);
  if (before !== undefined) return before;
  const spec = generateKeySpec();
  await writeKeyRingFile(dataDir, spec);
  return spec;
}
