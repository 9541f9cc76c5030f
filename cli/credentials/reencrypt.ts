import type { FirstPosition } from '../../shared/contracts/first-position.ts';
import { AppError, errorCode } from '../../shared/errors.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { EncryptedSample } from '../../shared/postgres/encrypted-samples.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { findWrongKeys } from '../../shared/postgres/require-keys.ts';
import { reencryptDeadLetters } from '../sql/dead-letter-credentials.ts';
import { reencryptWebhookSecrets } from '../sql/encrypted-endpoints.ts';
import { type Reencrypt, reencryptCredentials, type ScanPosition } from '../sql/encrypted-values.ts';

/** Values of one type and key that cannot be reencrypted. */
export interface Unreadable {
  readonly of: EncryptedSample['of'];
  readonly keyId: string;
  /**
   * `key-lost`: the ring does not have the key. `unreadable`: the ring has another key with this
   * id, or the value was changed.
   */
  readonly reason: 'key-lost' | 'unreadable';
  readonly count: number;
}

export interface Reencrypted {
  readonly credentials: number;
  readonly webhookSecrets: number;
  readonly deadLetters: number;
  readonly unreadable: readonly Unreadable[];
}

export interface Walk {
  /**
   * Called after each step with the number of values so far, and the number of unreadable values.
   */
  onStep(seen: number, unreadable: number): void;
  /** Returns whether to end after this step. */
  isInterrupted(): boolean;
}

const ROWS_OF_STEP = 500;
/** Dead letters per step. Each may be as large as a record of the log, so a step has only a few. */
const DEAD_LETTERS_OF_STEP = 50;

/**
 * Reencrypts everything with the first key of the ring, except what that key has encrypted. Safe
 * while Sluice runs; can be interrupted and repeated. Throws AppError `KEY_WRONG` if the first key
 * is not the key that its id names.
 */
export async function reencryptStored(pool: Pool, keyRing: KeyRing, walk: Walk): Promise<Reencrypted> {
  const [keyId] = keyRing.keyIds;
  const wrong = (await findWrongKeys(pool, keyRing)).find((found) => found.keyId === keyId);
  if (wrong) throw new AppError('KEY_WRONG', wrong.problem);
  const done = { credentials: 0, 'webhook secrets': 0, 'dead letters': 0 };
  const unreadable = new Map<string, Unreadable>();
  let seen = 0;
  let lost = 0;
  const reencrypt: Reencrypt = ({ of, keyId: before, ciphertext, aad }) => {
    seen += 1;
    try {
      const encrypted = keyRing.encrypt(keyRing.decrypt(before, ciphertext, aad), aad);
      done[of] += 1;
      return encrypted;
    } catch (error) {
      const reason = errorCode(error) === 'KEY_LOST' ? 'key-lost' : 'unreadable';
      const name = `${of} ${before} ${reason}`;
      unreadable.set(name, { of, keyId: before, reason, count: (unreadable.get(name)?.count ?? 0) + 1 });
      lost += 1;
      return undefined;
    }
  };
  await reencryptWebhookSecrets(pool, { keyId }, reencrypt);
  walk.onStep(seen, lost);
  let after: ScanPosition | undefined;
  while (!walk.isInterrupted()) {
    after = await reencryptCredentials(pool, { keyId, after, rowsMax: ROWS_OF_STEP }, reencrypt);
    walk.onStep(seen, lost);
    if (after === undefined) break;
  }
  let place: FirstPosition | undefined;
  while (!walk.isInterrupted()) {
    const step = { keyId, after: place, rowsMax: DEAD_LETTERS_OF_STEP };
    place = await reencryptDeadLetters(pool, step, reencrypt);
    walk.onStep(seen, lost);
    if (place === undefined) break;
  }
  return {
    credentials: done.credentials,
    webhookSecrets: done['webhook secrets'],
    deadLetters: done['dead letters'],
    unreadable: [...unreadable.values()],
  };
}
