import { AppError, errorCode } from '../../shared/errors.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { findWrongKeys } from '../../shared/postgres/require-keys.ts';
import type { EncryptedSample } from '../../shared/postgres/sample-encrypted.ts';
import { type DeadLetterPlace, reencryptDeadLetters } from '../sql/dead-letter-credentials.ts';
import {
  type Reencrypt,
  reencryptCredentials,
  reencryptWebhookSecrets,
  type WalkPlace,
} from '../sql/encrypted-values.ts';

/** Values of one sort and key that stay as they are. */
export interface Unreadable {
  readonly of: EncryptedSample['of'];
  readonly keyId: string;
  /** The ring lacks the key; or it has another one of that id, or the value was changed. */
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
  /** Called after each step with how many values were looked at, and how many of them could not be read, so far. */
  onStep(seen: number, unreadable: number): void;
  /** Whether to end after this step. */
  isInterrupted(): boolean;
}

const ROWS_OF_STEP = 500;
/** They may be as large as a record of the log. */
const DEAD_LETTERS_OF_STEP = 50;

/**
 * Encrypts with the ring's first key what others encrypted, beside gateways, workers and admin listeners that run. What is
 * done stays done when it is interrupted. Throws AppError `KEY_WRONG` where the first key is not what its id says.
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
  let after: WalkPlace | undefined;
  while (!walk.isInterrupted()) {
    after = await reencryptCredentials(pool, { keyId, after, rowsMax: ROWS_OF_STEP }, reencrypt);
    walk.onStep(seen, lost);
    if (after === undefined) break;
  }
  let place: DeadLetterPlace | undefined;
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
