import { sleep } from '../../shared/async.ts';
import { AppError } from '../../shared/errors.ts';
import { runAtOnce } from '../../shared/map-in-slices.ts';
import { countMessages } from '../../shared/postgres/count-messages.ts';
import { insertDeltas, lockCompaction } from '../../shared/postgres/message-sent-deltas.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import { listTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import {
  ACCEPTED_AFTER_MS,
  ACCEPTED_BEFORE_MS,
  addEarlierIds,
  deleteCounts,
  type MessageDay,
  readFirstCreation,
  readMessages,
} from '../sql/message-recount.ts';

/** The steps of the transaction that rebuilds a day, in order; tests stop at each step. */
export const REBUILD_STEPS = ['locked', 'counts-deleted', 'messages-counted', 'committed'] as const;

export type RebuildStep = (typeof REBUILD_STEPS)[number];

export interface Rebuild {
  readonly pool: Pool;
  readonly tenantIds: readonly string[];
  /** Half-open, at the start of UTC days, in milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Called after each day, with its number of messages. */
  onDay(messages: number): void;
  /** Returns whether to end after this day. */
  isInterrupted(): boolean;
  /** Called after each step; set in tests. */
  readonly onStep?: (step: RebuildStep) => void | Promise<void>;
}

const DAY_MS = 86_400_000;
const LOCK_TIMEOUT_MS = 60_000;
const LOCK_POLL_MS = 100;
/** Milliseconds for which counting a batch may leave the transaction without a statement. */
const IDLE_IN_TRANSACTION_MS = 60_000;

/**
 * Counts the messages of a range again, a day in each transaction, while workers store others: a
 * transaction sees the messages and the deltas of one snapshot, and replaces the counts of the day
 * by deltas, which workers compact as any others. Resolves with the number of days.
 *
 * Throws AppError `ROWS_GONE` (not retryable), or `COMPACTION_BUSY` (retryable).
 */
export async function rebuildCounts(rebuild: Rebuild): Promise<number> {
  const { pool, tenantIds, fromMs, toMs } = rebuild;
  // No message was accepted before its tenant was created, so no weekly table is needed for that time.
  const createdMs = (await readFirstCreation(pool, tenantIds)) ?? 0;
  const acceptedFromMs = Math.max(fromMs - ACCEPTED_BEFORE_MS, Math.floor(createdMs / DAY_MS) * DAY_MS);
  await requireMessages(pool, acceptedFromMs, toMs);
  let days = 0;
  for (let startMs = fromMs; startMs < toMs && !rebuild.isInterrupted(); startMs += DAY_MS) {
    rebuild.onDay(await rebuildDay(rebuild, { tenantIds, startMs }));
    days += 1;
  }
  return days;
}

/**
 * Throws AppError `ROWS_GONE` if a weekly table is missing in which messages may be that were accepted
 * from a time on, for days up to another.
 */
async function requireMessages(pool: Pool, acceptedFromMs: number, toMs: number): Promise<void> {
  const weeks = await listTimePartitions(pool, 'message_sent');
  const newest = weeks[0]?.toMs ?? 0;
  const lastMs = Math.min(toMs + ACCEPTED_AFTER_MS, newest);
  let missing: number | undefined;
  for (let timeMs = acceptedFromMs; timeMs < lastMs; timeMs += DAY_MS) {
    if (!weeks.some((week) => week.fromMs <= timeMs && timeMs < week.toMs)) missing = timeMs;
  }
  if (missing === undefined && newest > acceptedFromMs) return;
  const next = weeks.findLast((week) => week.fromMs > (missing ?? Number.POSITIVE_INFINITY));
  const instead =
    next && next.fromMs + DAY_MS < toMs ? `: choose --from ${dayOf(next.fromMs + DAY_MS)} or later` : '';
  throw new AppError(
    'ROWS_GONE',
    `the messages of ${dayOf(missing ?? acceptedFromMs)} are no longer stored, or never were, so they cannot be counted again; their counts are kept${instead}`,
  );
}

/** Repeats the transaction until no other one has changed the counts of the day since its snapshot. */
async function rebuildDay(rebuild: Rebuild, day: MessageDay): Promise<number> {
  const endMs = performance.now() + LOCK_TIMEOUT_MS;
  for (;;) {
    const messages = await inTransaction(rebuild.pool, (db) => recount(db, rebuild, day), {
      snapshot: true,
      idleTimeoutMs: IDLE_IN_TRANSACTION_MS,
    }).catch((error: unknown) => {
      if (!CHANGED.has(sqlStateOf(error))) throw error;
      return undefined;
    });
    if (messages !== undefined) {
      await rebuild.onStep?.('committed');
      return messages;
    }
    if (performance.now() > endMs) {
      throw new AppError(
        'COMPACTION_BUSY',
        'workers, or another rebuild, have been compacting counts for a minute: run the same command again',
        { retryable: true },
      );
    }
    await sleep(LOCK_POLL_MS);
  }
}

const CHANGED: ReadonlySet<string | undefined> = new Set([
  SQLSTATE.SERIALIZATION_FAILURE,
  SQLSTATE.UNIQUE_VIOLATION,
]);

/** Resolves with the number of messages; undefined if another process compacts. */
async function recount(db: Queryable, { onStep }: Rebuild, day: MessageDay): Promise<number | undefined> {
  if (!(await lockCompaction(db))) return undefined;
  // A role or database may round numbers.
  await db.query('set local extra_float_digits = 1');
  await onStep?.('locked');
  await deleteCounts(db, day);
  await onStep?.('counts-deleted');
  let messages = 0;
  for await (const records of readMessages(db, day)) {
    messages += records.length;
    await insertDeltas(db, runAtOnce(countMessages(records)));
  }
  await addEarlierIds(db, day);
  await onStep?.('messages-counted');
  return messages;
}
