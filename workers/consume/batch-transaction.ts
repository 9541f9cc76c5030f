import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import type { BatchMeter, TopicMetrics } from './metrics.ts';

/** The steps of a batch's transaction, in order; tests kill the process at each step. */
export const BATCH_STEPS = [
  'begun',
  'position-locked',
  'keys-written',
  'rows-written',
  'dead-letters-written',
  'webhook-events-written',
  'position-advanced',
  'committed',
] as const;

export type BatchStep = (typeof BATCH_STEPS)[number];

export interface TransactionDeps {
  readonly pool: Pool;
  readonly metrics: TopicMetrics;
  /**
   * Milliseconds after which the server ends an idle transaction. Meanwhile, a worker that is
   * frozen in its transaction holds the locks of its partitions' positions. Default 3000.
   */
  readonly idleInTransactionMs?: number | undefined;
  /** Timeout in milliseconds for a statement that stores several records. Default 10,000. */
  readonly statementTimeoutMs?: number | undefined;
  /** Called before each step; set in tests. */
  readonly onStep?: ((step: BatchStep) => void | Promise<void>) | undefined;
}

/**
 * Lock timeout in milliseconds. A batch that waits for a lock holds a transaction slot, so a lock
 * on one kind's table would stall all kinds. On lock timeout, the batch releases its slot, reports
 * why, and retries.
 */
export const LOCK_TIMEOUT_MS = 2_000;

/**
 * Records up to which planning is a large part of the work, so that statements are prepared. For so
 * few, an index is always better than to read a table.
 */
const FEW_RECORDS = 200;

const IDLE_IN_TRANSACTION_MS = 3_000;

/**
 * Timeout in milliseconds of a statement that stores several records. On timeout, fewer records are
 * stored. Well below the 30 s after which a consumer group removes a silent member. A single record
 * has no limit.
 */
const STATEMENT_TIMEOUT_MS = 10_000;

/** Runs the transaction of a batch of this many records, and reports it once it is committed. */
export async function inBatchTransaction<T>(
  deps: TransactionDeps,
  records: number,
  work: (client: Queryable, meter: BatchMeter) => Promise<T>,
): Promise<T> {
  const meter = deps.metrics.beginBatch();
  const result = await inTransaction(
    deps.pool,
    async (client) => {
      await reachStep(deps, client, 'begun');
      return await work(client, meter);
    },
    {
      idleTimeoutMs: deps.idleInTransactionMs ?? IDLE_IN_TRANSACTION_MS,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      pipelined: true,
      ...(records <= FEW_RECORDS && { prepare: true, preferIndexes: true }),
      ...(records > 1 && { statementTimeoutMs: deps.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS }),
    },
  );
  meter.commit();
  await deps.onStep?.('committed');
  return result;
}

/** Reports a step of the transaction, once all statements before it have ended. */
export async function reachStep(
  { onStep }: TransactionDeps,
  client: Queryable,
  name: BatchStep,
): Promise<void> {
  if (!onStep) return;
  await client.query('select');
  await onStep(name);
}
