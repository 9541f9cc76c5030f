import { tryAdvisoryLock } from './advisory-lock.ts';
import { type Column, insertRows } from './bulk-rows.ts';
import { withoutAnswer } from './pipelining.ts';
import type { Queryable } from './pool.ts';

/** The position of a record in its topic. */
export interface LogPosition {
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
}

/** The counts of a batch for one tenant and quarter-hour. */
export interface MessageSentDelta {
  readonly tenantId: string;
  readonly quarterHourMs: number;
  /** The position of one of the messages, which no other delta has. */
  readonly first: LogPosition;
  readonly rollups: Buffer;
  readonly conversations: Buffer;
}

const COLUMNS: readonly Column<MessageSentDelta>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'quarter_hour', type: 'timestamptz', value: ({ quarterHourMs }) => quarterHourMs },
  { name: 'generation', type: 'integer', value: ({ first }) => first.generation },
  { name: 'partition', type: 'integer', value: ({ first }) => first.partition },
  { name: 'offset', type: 'bigint', value: ({ first }) => first.offset },
  { name: 'rollups', type: 'bytea', value: ({ rollups }) => rollups },
  { name: 'conversations', type: 'bytea', value: ({ conversations }) => conversations },
];

/** Stores deltas. Their order does not matter, because no other transaction writes their keys. */
export async function insertDeltas(db: Queryable, deltas: readonly MessageSentDelta[]): Promise<void> {
  await insertRows(withoutAnswer(db), 'message_sent_deltas', COLUMNS, deltas);
}

/** Key of the advisory lock that serializes the compaction of deltas; an arbitrary number. */
const COMPACTION_LOCK = 7_305_411_903;

/** Locks the compaction until the transaction ends. Resolves with false if another one holds it. */
export function lockCompaction(db: Queryable): Promise<boolean> {
  return tryAdvisoryLock(db, COMPACTION_LOCK);
}

/** Locks the compaction until the transaction ends, after the one in progress. */
export async function waitForCompaction(db: Queryable): Promise<void> {
  await db.query('select pg_advisory_xact_lock($1)', [COMPACTION_LOCK]);
}
