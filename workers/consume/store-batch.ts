import type { Clock } from '../../shared/clock.ts';
import { AppError } from '../../shared/errors.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import { fingerprint } from '../../shared/log/fingerprint.ts';
import { POSITION_LOST } from '../../shared/log/log.ts';
import { inTransaction, type Pool, type PoolClient } from '../../shared/postgres/pool.ts';
import { advancePosition, lockPosition, type PositionRow } from '../../shared/postgres/positions.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { insertWebhookEvents } from '../sql/webhook-events.ts';
import { recordDeadLetters, rejectionEvents } from './dead-letters.ts';
import type { Candidate } from './decode.ts';
import { type DeadLetter, deduplicate } from './deduplicate.ts';

/** Points of a batch's transaction, in their order, at which tests end it. */
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

export interface StoreBatchDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** How long ids made by the gateway are kept. */
  readonly generatedIdKeptMs: number;
  /**
   * A worker that is frozen in mid-transaction holds its partition's position; after so many milliseconds the server
   * ends the transaction, and another worker can go on. Default: that of every transaction.
   */
  readonly idleInTransactionMs?: number | undefined;
  /** Milliseconds that a statement may take that stores several records. Default 10,000. */
  readonly statementTimeoutMs?: number | undefined;
  /** For tests. */
  readonly onStep?: ((step: BatchStep) => void | Promise<void>) | undefined;
}

/** Consecutive records of a partition that are stored, or not, together. */
export interface Slice<Row> {
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  readonly candidates: readonly Candidate<Row>[];
  /** First offset of the batch that the slice is a part of, and the partition's end when that was read. */
  readonly batchFrom: bigint;
  readonly latest: bigint;
  /** Writes of a dead letter position, reason and bytes only, and nothing about it: the database refused more. */
  readonly bare?: boolean;
}

export interface StoreResult<Row> {
  readonly nextOffset: bigint;
  readonly stored: number;
  readonly deadLetters: readonly DeadLetter<Row>[];
  /** Whether a start that ended without a commit is counted still. */
  readonly startCounted: boolean;
}

/**
 * A batch that waits for a lock has one of the few turns: where somebody holds a table of one kind, the others would wait with
 * it. Refused, it gives its turn away, says why, and comes again.
 */
export const LOCK_TIMEOUT_MS = 2_000;

/**
 * A statement of several records that takes longer is cancelled, so that fewer are tried: well below the 30 s after which a
 * server ends an idle transaction and a group gives a silent member up. A single record takes as long as it takes.
 */
export const STATEMENT_TIMEOUT_MS = 10_000;

/**
 * Stores a slice and its dead letters in one transaction: what lies below the partition's position is skipped, so a
 * repetition writes nothing. Throws whatever the database throws (see faults.ts), and an AppError `POSITION_LOST` when the
 * log is not the one that the position belongs to.
 */
export async function storeBatch<Row>(
  deps: StoreBatchDeps,
  kind: RecordKind<Row>,
  slice: Slice<Row>,
): Promise<StoreResult<Row>> {
  const result = await inTransaction(
    deps.pool,
    async (client) => {
      await deps.onStep?.('begun');
      const position = await lockPosition(client, slice);
      if (!position) throw new AppError(POSITION_LOST, `the position of ${placeOf(slice)} was deleted`);
      checkPosition(position, slice);
      await deps.onStep?.('position-locked');
      const fresh = slice.candidates.filter(({ log }) => log.offset >= position.nextOffset);
      if (fresh.length === 0) return skip(client, slice, position, deps.clock.nowMs());
      return store(deps, client, kind, { ...slice, candidates: fresh }, position);
    },
    {
      ...(deps.idleInTransactionMs !== undefined && { idleTimeoutMs: deps.idleInTransactionMs }),
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      ...(slice.candidates.length > 1 && {
        statementTimeoutMs: deps.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
      }),
    },
  );
  await deps.onStep?.('committed');
  return result;
}

async function store<Row>(
  deps: StoreBatchDeps,
  client: PoolClient,
  kind: RecordKind<Row>,
  slice: Slice<Row>,
  { suspectEnd }: PositionRow,
): Promise<StoreResult<Row>> {
  const nowMs = deps.clock.nowMs();
  const { stored, deadLetters } = slice.bare
    ? { stored: [], deadLetters: slice.candidates.flatMap(toDeadLetter) }
    : await deduplicate(client, slice.candidates, {
        kind: kind.kind,
        nowMs,
        generatedIdKeptMs: deps.generatedIdKeptMs,
      });
  await deps.onStep?.('keys-written');
  const events = stored.length > 0 ? await kind.write(client, stored, { nowMs }) : [];
  await deps.onStep?.('rows-written');
  const { topic, candidates, bare = false } = slice;
  await recordDeadLetters(client, kind, { topic, candidates, deadLetters, bare }, nowMs);
  await deps.onStep?.('dead-letters-written');
  const rejections = bare ? [] : rejectionEvents(kind.kind, deadLetters, nowMs);
  await insertWebhookEvents(client, [...events, ...rejections], { nowMs, nextId: deps.nextId });
  await deps.onStep?.('webhook-events-written');
  const last = slice.candidates.at(-1)!.log;
  const nextOffset = last.offset + 1n;
  await advancePosition(client, slice, { nextOffset, lastId: fingerprint(last), nowMs });
  await deps.onStep?.('position-advanced');
  const startCounted = suspectEnd !== null && suspectEnd > nextOffset;
  return { nextOffset, stored: stored.length, deadLetters, startCounted };
}

/**
 * All was stored before: only the count of starts may have to be cleared. Not where more waits behind it, which may be what
 * ended those starts, nor where something is suspected, which was not reached yet.
 */
async function skip<Row>(
  client: PoolClient,
  slice: Slice<Row>,
  { nextOffset, lastId, starts, suspectEnd }: PositionRow,
  nowMs: number,
): Promise<StoreResult<Row>> {
  const startCounted = suspectEnd !== null || slice.latest > nextOffset;
  if (starts > 0 && !startCounted) await advancePosition(client, slice, { nextOffset, lastId, nowMs });
  return { nextOffset, stored: 0, deadLetters: [], startCounted };
}

/** The one way on where the log does not fit. */
export const GO_ON = 'where the log that was read will not come back, run `npx sluice topics accept`';

/** Stops where going on would skip records that were never stored, or store those of another log as if they followed. */
function checkPosition(position: PositionRow, slice: Slice<unknown>): void {
  const { nextOffset, lastId } = position;
  if (position.generation !== slice.generation) {
    lost(slice, `its position is of generation ${position.generation}, not ${slice.generation}`);
  }
  if (slice.batchFrom > nextOffset) {
    lost(slice, `it was read up to ${slice.batchFrom}, but is stored up to ${nextOffset} only`);
  }
  if (slice.latest < nextOffset) {
    lost(slice, `the log ends at ${slice.latest}, but records up to ${nextOffset} were stored; ${GO_ON}`);
  }
  const previous = slice.candidates.find(({ log }) => log.offset === nextOffset - 1n);
  if (previous && lastId !== null && fingerprint(previous.log) !== lastId) {
    lost(slice, `record ${nextOffset - 1n} is not the one that was stored: this is another log; ${GO_ON}`);
  }
}

function lost(slice: Slice<unknown>, what: string): never {
  throw new AppError(POSITION_LOST, `${placeOf(slice)}: ${what}`);
}

function placeOf({ topic, partition }: { readonly topic: string; readonly partition: number }): string {
  return `${topic}, partition ${partition}`;
}

function toDeadLetter<Row>(candidate: Candidate<Row>): DeadLetter<Row>[] {
  return candidate.outcome.ok ? [] : [{ candidate, rejection: candidate.outcome.rejection }];
}
