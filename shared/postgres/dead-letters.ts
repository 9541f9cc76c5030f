import type { TopicPosition } from '../contracts/first-position.ts';
import type { Kind } from '../contracts/kinds.ts';
import { type Column, insertRows } from './bulk-rows.ts';
import type { Queryable } from './pool.ts';

/** A record that could not be stored. */
export interface DeadLetter extends TopicPosition {
  /** The tenant's id; '' if the record does not contain it. */
  readonly tenantId: string;
  readonly recordId: string;
  readonly entity: string;
  readonly reason: string;
  readonly stage: string;
  /** Text for operators, without values of the record. */
  readonly error: string;
  /** Key, value and headers as received; null: the record had none, or they were erased. */
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Buffer;
  /** The key that encrypted the credentials in the value. */
  readonly keyId: string | null;
  readonly acceptedAtMs: number;
  readonly failedAtMs: number;
  /** When the value is erased; null: when the row is deleted. */
  readonly valueExpiresAtMs: number | null;
  readonly expiresAtMs: number;
  /**
   * The number of the replay that failed; 0: no replay, or a replay by a release that did not
   * number replays.
   */
  readonly replay: number;
  /** The offset in the dead-letter topic from which the dead letter is imported. */
  readonly importedOffset: bigint | null;
}

/** Maximum bytes of rows in one statement; a larger row has its own statement. */
const STATEMENT_BYTES_MAX = 8 * 1024 * 1024;
/** Estimated bytes of a row in addition to key, value and headers. */
const ROW_BYTES = 512;

const COLUMNS: readonly Column<DeadLetter>[] = [
  { name: 'generation', type: 'integer', value: ({ generation }) => generation },
  { name: 'partition', type: 'integer', value: ({ partition }) => partition },
  { name: 'offset', type: 'bigint', value: ({ offset }) => offset },
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'record_id', type: 'text', value: ({ recordId }) => recordId },
  { name: 'entity', type: 'text', value: ({ entity }) => entity },
  { name: 'reason', type: 'text', value: ({ reason }) => reason },
  { name: 'stage', type: 'text', value: ({ stage }) => stage },
  { name: 'error', type: 'text', value: ({ error }) => error },
  { name: 'key', type: 'bytea', value: ({ key }) => key },
  { name: 'value', type: 'bytea', value: ({ value }) => value },
  { name: 'headers', type: 'bytea', value: ({ headers }) => headers },
  { name: 'bytes', type: 'bigint', value: bytesOf },
  { name: 'key_id', type: 'text', value: ({ keyId }) => keyId },
  { name: 'state', type: 'text', same: 'open' },
  { name: 'state_at', type: 'timestamptz', value: ({ failedAtMs }) => failedAtMs },
  { name: 'replay', type: 'integer', value: ({ replay }) => replay },
  { name: 'imported_offset', type: 'bigint', value: ({ importedOffset }) => importedOffset },
  { name: 'accepted_at', type: 'timestamptz', value: ({ acceptedAtMs }) => acceptedAtMs },
  { name: 'failed_at', type: 'timestamptz', value: ({ failedAtMs }) => failedAtMs },
  { name: 'value_expires_at', type: 'timestamptz', value: ({ valueExpiresAtMs }) => valueExpiresAtMs },
  { name: 'expires_at', type: 'timestamptz', value: ({ expiresAtMs }) => expiresAtMs },
];

const REOPEN = `
  on conflict (topic, generation, partition, "offset")
  do update set state = 'open', state_at = excluded.failed_at, reason = excluded.reason, stage = excluded.stage,
     error = excluded.error, failed_at = excluded.failed_at, expires_at = excluded.expires_at,
     replay = greatest(d.replay, excluded.replay), imported_offset = excluded.imported_offset`;

/**
 * The condition under which a failed record reopens its row. A failed replay reopens its row unless
 * a later replay is in flight or the row is settled. A replay without a number, and a record that
 * is read again, reopen every row that is not being replayed.
 */
const FAILED_AGAIN = `
  where case excluded.replay when 0 then d.state <> 'replaying'
        else excluded.replay >= d.replay and d.state in ('open', 'replaying') end`;

/**
 * The condition under which an import reopens an existing row. The last import of a position
 * counts. A row that is being replayed is reopened if it has failed since, because a worker of an
 * earlier release may have rejected the replay.
 */
const IMPORTED_AGAIN = `
  where d.imported_offset < excluded.imported_offset
     or (d.imported_offset is null and d.state = 'replaying' and excluded.failed_at > d.state_at)`;

/**
 * Writes dead letters of one topic (distinct, sorted by their positions) in the caller's
 * transaction.
 */
export async function writeDeadLetters(
  db: Queryable,
  place: { readonly topic: string; readonly kind: Kind },
  letters: readonly DeadLetter[],
  from: 'worker' | 'import' = 'worker',
): Promise<void> {
  const columns: Column<DeadLetter>[] = [
    { name: 'topic', type: 'text', same: place.topic },
    { name: 'kind', type: 'text', same: place.kind },
    ...COLUMNS,
  ];
  const suffix = REOPEN + (from === 'worker' ? FAILED_AGAIN : IMPORTED_AGAIN);
  for (const part of inStatements(letters)) {
    await insertRows(db, 'dead_letters as d', columns, part, suffix);
  }
}

function* inStatements(letters: readonly DeadLetter[]): Generator<DeadLetter[]> {
  let part: DeadLetter[] = [];
  let bytes = 0;
  for (const letter of letters) {
    const size = bytesOf(letter);
    if (part.length > 0 && bytes + size > STATEMENT_BYTES_MAX) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(letter);
    bytes += size;
  }
  if (part.length > 0) yield part;
}

function bytesOf({ key, value, headers, error }: DeadLetter): number {
  return ROW_BYTES + (key?.length ?? 0) + (value?.length ?? 0) + headers.length + error.length;
}

/** Compares two positions. Returns a number below 0 if `a` comes before `b`. */
export function comparePositions(a: TopicPosition, b: TopicPosition): number {
  const order = a.generation - b.generation || a.partition - b.partition;
  return order || (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0);
}

/** Returns the positions as three array parameters. */
export function columnsOf(positions: readonly TopicPosition[]): unknown[] {
  return [
    positions.map(({ generation }) => generation),
    positions.map(({ partition }) => partition),
    positions.map(({ offset }) => offset),
  ];
}
