import { AppError } from '../errors.ts';
import { keyRingProblems, listWrongKeys } from '../keyring/check.ts';
import type { KeyRing } from '../keyring/keyring.ts';
import { type EncryptedSample, sampleNewestCredentials, sampleWebhookSecrets } from './encrypted-samples.ts';
import type { Pool } from './pool.ts';

const DEADLINE_MS = 5000;

/**
 * Returns the keys of the ring that differ from the keys with the same ids that encrypted stored
 * values.
 */
export async function findWrongKeys(pool: Pool, keyRing: KeyRing): Promise<ReturnType<typeof listWrongKeys>> {
  return listWrongKeys(keyRing, await samples(pool));
}

/**
 * Rejects with AppError `KEY_WRONG` if a key of the ring differs from the key in use with the same
 * id. Other processes could not decrypt the values that this process encrypts. A key that the ring
 * lacks is no error, because it cannot cause further damage. Returns one sentence per value that
 * the ring cannot decrypt.
 */
export async function requireKeys(pool: Pool, keyRing: KeyRing): Promise<string[]> {
  const stored = await samples(pool);
  const wrong = listWrongKeys(keyRing, stored);
  if (wrong.length === 0) return keyRingProblems(keyRing, stored);
  const problems = wrong.map(({ problem }) => problem).join('; ');
  throw new AppError('KEY_WRONG', `${problems}: restore the right key, or give this key another id`);
}

async function samples(pool: Pool): Promise<EncryptedSample[]> {
  return [
    ...(await sampleWebhookSecrets(pool, DEADLINE_MS)),
    ...(await sampleNewestCredentials(pool, DEADLINE_MS)),
  ];
}
