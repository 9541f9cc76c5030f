import { keyRingFileName, readKeyRingFile, writeKeyRingFile } from '../shared/keyring/file.ts';
import { createKeyRing, generateKeySpec, type KeyRing } from '../shared/keyring/keyring.ts';

/**
 * The key ring of this data directory, made at the first start. Without it stored credentials are lost, so it is never
 * made anew over one that is there.
 */
export async function ensureCredentialsKey(dataDir: string): Promise<KeyRing> {
  const before = await readKeyRingFile(dataDir);
  if (before !== undefined) return before;
  const spec = generateKeySpec();
  await writeKeyRingFile(dataDir, spec);
  return createKeyRing(spec, keyRingFileName(dataDir));
}
