import type { FirstPosition } from '../contracts/first-position.ts';
import type { Kind } from '../contracts/kinds.ts';
import { columnsOf } from './dead-letters.ts';
import type { Queryable } from './pool.ts';
import { epochMs, toDate } from './times.ts';

export const STATES = ['open', 'replaying', 'replayed', 'dropped'] as const;
export type State = (typeof STATES)[number];
/** The states in which a dead letter can be replayed or dropped. */
export const UNSETTLED: readonly State[] = ['open', 'replaying'];

/** Selects dead letters. A missing member does not restrict the selection. */
export interface DeadLetterFilter {
  readonly topics: readonly string[];
  readonly states: readonly State[];
  /** Only dead letters with one of these first positions. */
  readonly firstPositions?: readonly FirstPosition[] | undefined;
  readonly recordId?: string | undefined;
  readonly reason?: string | undefined;
  readonly reasonLeftOut?: string | undefined;
  readonly tenantId?: string | undefined;
  /** Bounds on the time of the last failure, in milliseconds since the Unix epoch. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  /** Of those in the state `replaying`, only the ones in it since before this time. */
  readonly replayingSinceBefore?: number | undefined;
}

/** A place in a list of the newest dead letters: after this one. */
export interface DeadLetterPlace extends FirstPosition {
  readonly failedAtMs: number;
}

/** A dead letter without key, value and headers. */
export interface DeadLetterLine extends DeadLetterPlace {
  readonly kind: Kind;
  readonly tenantId: string;
  readonly recordId: string;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
  readonly state: State;
  readonly stateAtMs: number;
  readonly replay: number;
  readonly expiresAtMs: number;
  /** False if the value was erased, or could not be imported. */
  readonly hasValue: boolean;
}

export interface WholeDeadLetter extends DeadLetterLine {
  readonly key: Buffer | null;
  /** Null if the value was erased, or could not be imported. */
  readonly value: Buffer | null;
  readonly headers: Buffer;
}

export const PLACE = 'topic, generation, partition, "offset"';
const LINE = `${PLACE}, kind, tenant_id as "tenantId", record_id as "recordId", reason, stage, error, state, replay,
  value is not null as "hasValue", ${epochMs('state_at')} as "stateAtMs", ${epochMs('failed_at')} as "failedAtMs", ${epochMs('expires_at')} as "expiresAtMs"`;

/** Takes the parameters $1 and $2, and $7 to $13, of {@link filterValues}. */
const FILTER = `topic = any($1::text[]) and state = any($2::text[])
  and ($7::text is null or record_id = $7::text)
  and ($8::text is null or reason = $8::text)
  and ($9::text is null or reason <> $9::text)
  and ($10::text is null or tenant_id = $10::text)
  and ($11::timestamptz is null or failed_at < $11::timestamptz)
  and ($12::timestamptz is null or failed_at >= $12::timestamptz)
  and ($13::timestamptz is null or state <> 'replaying' or state_at < $13::timestamptz)`;
/** Takes the parameters $3 to $6. In an `or`, Postgres would compare every dead letter with them. */
const AT_POSITIONS = `(${PLACE}) in (
  select t, g, p, o from unnest($3::text[], $4::integer[], $5::integer[], $6::bigint[]) as sent (t, g, p, o))`;
const ANYWHERE =
  '$3::text[] is null and $4::integer[] is null and $5::integer[] is null and $6::bigint[] is null';

/** Returns the condition of a filter, which takes the parameters $1 to $13 of {@link filterValues}. */
export function filterCondition({ firstPositions }: DeadLetterFilter): string {
  return `${FILTER} and ${firstPositions ? AT_POSITIONS : ANYWHERE}`;
}

export function filterValues(filter: DeadLetterFilter): unknown[] {
  const { firstPositions, before, after, replayingSinceBefore } = filter;
  const positions = firstPositions ? columnsOf(firstPositions) : [null, null, null];
  return [
    filter.topics,
    filter.states,
    firstPositions?.map(({ topic }) => topic) ?? null,
    ...positions,
    filter.recordId ?? null,
    filter.reason ?? null,
    filter.reasonLeftOut ?? null,
    filter.tenantId ?? null,
    toDate(before),
    toDate(after),
    toDate(replayingSinceBefore),
  ];
}

/** Returns the newest dead letters after a place, or the first ones, newest first. */
export async function listDeadLetters(
  db: Queryable,
  filter: DeadLetterFilter,
  limit: number,
  place?: DeadLetterPlace,
): Promise<DeadLetterLine[]> {
  const { rows } = await db.query<DeadLetterLine>(
    `select ${LINE} from dead_letters
      where ${filterCondition(filter)}
        and ($15::timestamptz is null
             or (failed_at <= $15::timestamptz
                 and (failed_at < $15::timestamptz
                      or (${PLACE}) > ($16::text, $17::integer, $18::integer, $19::bigint))))
      order by failed_at desc, ${PLACE} limit $14`,
    [
      ...filterValues(filter),
      limit,
      toDate(place?.failedAtMs),
      place?.topic,
      place?.generation,
      place?.partition,
      place?.offset,
    ],
  );
  return rows;
}

/** Returns the newest dead letters, newest first, with key, value and headers. */
export async function readDeadLetters(
  db: Queryable,
  filter: DeadLetterFilter,
  limit: number,
): Promise<WholeDeadLetter[]> {
  const { rows } = await db.query<WholeDeadLetter>(
    `select ${LINE}, key, value, headers from dead_letters
      where ${filterCondition(filter)} order by failed_at desc, ${PLACE} limit $14`,
    [...filterValues(filter), limit],
  );
  return rows;
}

/**
 * Drops up to `limit` dead letters, and resolves with their number. Skips rows that a worker has
 * locked.
 */
export async function dropDeadLetters(
  db: Queryable,
  filter: DeadLetterFilter,
  limit: number,
  nowMs: number,
): Promise<number> {
  const result = await db.query(
    `update dead_letters set state = 'dropped', state_at = $15, imported_offset = null
      where (${PLACE}) in (
        select ${PLACE} from dead_letters where ${filterCondition(filter)} order by ${PLACE} limit $14 for update skip locked
      )`,
    [...filterValues(filter), limit, new Date(nowMs)],
  );
  return result.rowCount ?? 0;
}
