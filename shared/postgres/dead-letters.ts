import type { TopicPosition } from '../contracts/first-position.ts';
import type { Kind } from '../contracts/kinds.ts';
import { arrayParameter, type ColumnType } from './array-parameter.ts';
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

const COLUMNS: readonly {
  readonly name: string;
  readonly type: ColumnType;
  value(letter: DeadLetter): unknown;
}[] = [
  { name: 'generation', type: 'integer', value: ({ generation }) => generation },
  { name: 'partition', type: 'integer', value: ({ partition }) => partition },
  { name: 'offset', type: 'bigint', value: ({ offset }) => offset },
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'record_id', type: 'text', value: ({ recordId }) => recordId },
  { name: 'entity', type: 'text', value: ({ entity }) => entity },
  { name: 'reason', type: 'text', value: ({ reason }) => reason },
  { name: 'stage', type: 'text', value: ({ stage }) => stage },
  { name: 'error', type: 'text', value: ({ error }) => error },
  { name: 'bytes', type: 'bigint', value: bytesOf },
  { name: 'key_id', type: 'text', value: ({ keyId }) => keyId },
  { name: 'state_at', type: 'timestamptz', value: ({ failedAtMs }) => failedAtMs },
  { name: 'replay', type: 'integer', value: ({ replay }) => replay },
  { name: 'imported_offset', type: 'bigint', value: ({ importedOffset }) => importedOffset },
  { name: 'accepted_at', type: 'timestamptz', value: ({ acceptedAtMs }) => acceptedAtMs },
  { name: 'failed_at', type: 'timestamptz', value: ({ failedAtMs }) => failedAtMs },
  { name: 'value_expires_at', type: 'timestamptz', value: ({ valueExpiresAtMs }) => valueExpiresAtMs },
  { name: 'expires_at', type: 'timestamptz', value: ({ expiresAtMs }) => expiresAtMs },
];

/**
 * Columns that locate the bytes of each row. One parameter contains the bytes of all rows, because
 * an array of bytea would be sent as hexadecimal text.
 */
const LENGTHS = ['start', 'key_length', 'value_length', 'headers_length'] as const;

const names = COLUMNS.map(({ name }) => `"${name}"`);
const INSERT = `
  insert into dead_letters as d (topic, kind, state, key, value, headers, ${names.join(', ')})
  select $1, $2, 'open',
         substring($3::bytea from start for key_length),
         substring($3::bytea from start + coalesce(key_length, 0) for value_length),
         substring($3::bytea from start + coalesce(key_length, 0) + coalesce(value_length, 0) for headers_length),
         ${names.join(', ')}
    from unnest(${[...COLUMNS.map(({ type }) => type), ...LENGTHS.map(() => 'integer')]
      .map((type, i) => `$${i + 4}::${type}[]`)
      .join(', ')})
      as sent (${[...names, ...LENGTHS].join(', ')})
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
  const text = INSERT + (from === 'worker' ? FAILED_AGAIN : IMPORTED_AGAIN);
  for (const part of inStatements(letters)) {
    await db.query(text, [place.topic, place.kind, ...valuesOf(part)]);
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

function valuesOf(letters: readonly DeadLetter[]): unknown[] {
  const parts = letters.map(({ key, value, headers }) => [key, value, headers]);
  // substring() counts from 1.
  let next = 1;
  const starts = parts.map((ofRow) => {
    const start = next;
    for (const bytes of ofRow) next += bytes?.length ?? 0;
    return start;
  });
  const lengths = [0, 1, 2].map((i) => parts.map((ofRow) => ofRow[i]?.length ?? null));
  return [
    Buffer.concat(parts.flat().filter((bytes) => bytes !== null)),
    ...COLUMNS.map(({ type, value }) => arrayParameter(type, letters.map(value))),
    ...[starts, ...lengths].map((numbers) => arrayParameter('integer', numbers)),
  ];
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
