import { sleep } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import { AppError } from '../../shared/errors.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { findConversationIds } from '../sql/erase-scope.ts';
import {
  type Erasure,
  finishErasure,
  haveEnded,
  nextTransaction,
  recordErasure,
  WORKERS_KNOW_AFTER_MS,
} from '../sql/erasures.ts';
import { removeAll } from './remove.ts';
import { countIds, type ErasedIds, type Removed, unionOf } from './scope.ts';
import type { ErasureStep } from './steps.ts';

export interface ErasureDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  /** Called with the step that was completed. */
  readonly onStep?: ((step: ErasureStep) => void | Promise<void>) | undefined;
}

/** Longest wait for transactions that began before workers knew of an erasure. */
const TRANSACTIONS_TIMEOUT_MS = 60_000;
const POLL_MS = 50;

/**
 * Erases what has one of the ids, and resolves with the numbers of rows. The erasure is recorded first. Workers then store no more records that were accepted before, so that everything that is
 * stored can be deleted in short transactions. A repeat of an interrupted erasure completes it. Throws
 * AppError `TRANSACTION_RUNS` (retryable).
 */
export async function erase(
  deps: ErasureDeps,
  erasure: Erasure & { readonly ids: ErasedIds },
): Promise<Removed> {
  const { pool, clock, onStep } = deps;
  const { tenantId, erasedAtMs } = erasure;
  let { ids } = erasure;
  let recorded: number;
  do {
    ids = unionOf(ids, await withConversationIds(pool, tenantId, ids));
    recorded = countIds(ids);
    await recordErasure(pool, { ...erasure, ids });
    await onStep?.('recorded');
    await untilWorkersKnow(pool);
    // Until all workers knew of the erasure, they could store other ids of the conversations.
    ids = unionOf(ids, await withConversationIds(pool, tenantId, ids));
  } while (countIds(ids) > recorded);
  await onStep?.('known');
  const scope = { tenantId, erasedAtMs, ...ids };
  const { deleted, blanked } = await removeAll({ ...deps, storedToMs: clock.nowMs() }, scope);
  const removed = { deleted, blanked };
  await finishErasure(pool, erasure, removed, clock.nowMs());
  await onStep?.('finished');
  return removed;
}

/** Adds the service's ids of conversations. Messages may name an external id in their place. */
async function withConversationIds(pool: Pool, tenantId: string, ids: ErasedIds): Promise<ErasedIds> {
  const { conversations } = ids;
  const found = await findConversationIds(pool, tenantId, conversations);
  return { ...ids, conversationIds: [...conversations, ...found] };
}

/**
 * Waits until no transaction can store what was recorded as erased: each process reads the erased ids
 * at most a second after its transaction began to write.
 */
async function untilWorkersKnow(pool: Pool): Promise<void> {
  await sleep(WORKERS_KNOW_AFTER_MS);
  await untilTransactionsEnd(pool);
}

/**
 * Waits until all transactions that write, and have begun, have ended. Throws AppError
 * `TRANSACTION_RUNS` (retryable) after a minute.
 */
export async function untilTransactionsEnd(pool: Pool): Promise<void> {
  const next = await nextTransaction(pool);
  const endMs = performance.now() + TRANSACTIONS_TIMEOUT_MS;
  while (!(await haveEnded(pool, next))) {
    if (performance.now() > endMs) {
      throw new AppError(
        'TRANSACTION_RUNS',
        'a transaction of the database has been running for a minute, and may be storing what is erased: wait for its end, and repeat the command',
        { retryable: true },
      );
    }
    await sleep(POLL_MS);
  }
}
