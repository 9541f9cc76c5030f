import { AppError } from '../errors.ts';
import { keyRingProblems, wrongKeys } from '../keyring/check.ts';
import type { KeyRing } from '../keyring/keyring.ts';
import type { Pool } from './pool.ts';
import { type EncryptedSample, sampleNewestCredentials, sampleWebhookSecrets } from './sample-encrypted.ts';

const DEADLINE_MS = 5000;

/** Keys of the ring that are not the ones which stored values of their ids are encrypted with. */
export async function findWrongKeys(pool: Pool, keyRing: KeyRing): Promise<ReturnType<typeof wrongKeys>> {
  return wrongKeys(keyRing, await samples(pool));
}

/**
 * For whoever encrypts: with other bytes under an id in use, nobody else could read what it writes. Throws AppError
 * `KEY_WRONG`. A key that the ring lacks is no reason: what it encrypted cannot be read, but nothing is made worse. What
 * the ring cannot read is returned, a sentence each.
 */
export async function requireKeys(pool: Pool, keyRing: KeyRing): Promise<string[]> {
  const stored = await samples(pool);
  const wrong = wrongKeys(keyRing, stored);
  if (wrong.length === 0) return keyRingProblems(keyRing, stored);
  const problems = wrong.map(({ problem }) => problem).join('; ');
  throw new AppError('KEY_WRONG', `${problems}: put the right one back, or give this one an id of its own`);
}

async function samples(pool: Pool): Promise<EncryptedSample[]> {
  return [
    ...(await sampleWebhookSecrets(pool, DEADLINE_MS)),
    ...(await sampleNewestCredentials(pool, DEADLINE_MS)),
  ];
}
