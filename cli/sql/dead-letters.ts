import type { FirstPosition, TopicPosition } from '../../shared/contracts/first-position.ts';
import { columnsOf, comparePositions } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs, toDate } from '../../shared/postgres/times.ts';

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
}

/** A dead letter without key, value and headers. */
export interface DeadLetterLine extends FirstPosition {
  readonly kind: string;
  readonly tenantId: string;
  readonly recordId: string;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
  readonly state: State;
  readonly stateAtMs: number;
  readonly replay: number;
  readonly failedAtMs: number;
  readonly expiresAtMs: number;
}

export interface WholeDeadLetter extends DeadLetterLine {
  readonly key: Buffer | null;
  /** Null if the value was erased, or could not be imported. */
  readonly value: Buffer | null;
  readonly headers: Buffer;
}

const PLACE = 'topic, generation, partition, "offset"';
const LINE = `${PLACE}, kind, tenant_id as "tenantId", record_id as "recordId", reason, stage, error, state, replay,
  ${epochMs('state_at')} as "stateAtMs", ${epochMs('failed_at')} as "failedAtMs", ${epochMs('expires_at')} as "expiresAtMs"`;

/** Takes the parameters $1 to $12 of {@link filterValues}. */
const FILTER = `topic = any($1::text[]) and state = any($2::text[])
  and ($3::text[] is null
       or (${PLACE}) in (select t, g, p, o from unnest($3::text[], $4::integer[], $5::integer[], $6::bigint[]) as sent (t, g, p, o)))
  and ($7::text is null or record_id = $7::text)
  and ($8::text is null or reason = $8::text)
  and ($9::text is null or reason <> $9::text)
  and ($10::text is null or tenant_id = $10::text)
  and ($11::timestamptz is null or failed_at < $11::timestamptz)
  and ($12::timestamptz is null or failed_at >= $12::timestamptz)`;

function filterValues(filter: DeadLetterFilter): unknown[] {
  const { firstPositions, before, after } = filter;
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
  ];
}

/** Returns the newest dead letters, newest first. */
export async function listDeadLetters(
  db: Queryable,
  filter: DeadLetterFilter,
  limit: number,
): Promise<DeadLetterLine[]> {
  const { rows } = await db.query<DeadLetterLine>(
    `select ${LINE} from dead_letters where ${FILTER} order by failed_at desc, ${PLACE} limit $13`,
    [...filterValues(filter), limit],
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
      where ${FILTER} order by failed_at desc, ${PLACE} limit $13`,
    [...filterValues(filter), limit],
  );
  return rows;
}

/** The number of dead letters of a topic and reason. */
export interface DeadLetterCount {
  readonly topic: string;
  readonly reason: string;
  readonly count: number;
}

/** Counts the first `limit` dead letters in the order of their positions. */
export async function countDeadLetters(
  db: Queryable,
  filter: DeadLetterFilter,
  limit: number,
): Promise<DeadLetterCount[]> {
  const { rows } = await db.query<DeadLetterCount>(
    `select topic, reason, count(*)::integer as count
       from (select topic, reason from dead_letters where ${FILTER} order by ${PLACE} limit $13) as chosen
      group by topic, reason order by topic, reason`,
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
    `update dead_letters set state = 'dropped', state_at = $14, imported_offset = null
      where (${PLACE}) in (
        select ${PLACE} from dead_letters where ${FILTER} order by ${PLACE} limit $13 for update skip locked
      )`,
    [...filterValues(filter), limit, new Date(nowMs)],
  );
  return result.rowCount ?? 0;
}

/** A dead letter that may be replayed. */
export interface ReplayCandidate extends FirstPosition {
  readonly bytes: number;
  /** Whether the dead letter has a value. */
  readonly whole: boolean;
}

/** Returns up to `limit` dead letters after `after`, in the order of their positions. */
export async function findReplayable(
  db: Queryable,
  filter: DeadLetterFilter,
  after: FirstPosition | undefined,
  limit: number,
): Promise<ReplayCandidate[]> {
  const { rows } = await db.query<Omit<ReplayCandidate, 'bytes'> & { bytes: bigint }>(
    `select ${PLACE}, bytes, value is not null as whole from dead_letters
      where ${FILTER} and ($14::text is null or (${PLACE}) > ($14::text, $15::integer, $16::integer, $17::bigint))
      order by ${PLACE} limit $13`,
    [...filterValues(filter), limit, after?.topic, after?.generation, after?.partition, after?.offset],
  );
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }));
}

/** The record that a replay publishes. */
export interface Replay extends TopicPosition {
  readonly replay: number;
  readonly key: Buffer | null;
  readonly value: Buffer;
  readonly headers: Buffer;
}

/**
 * Marks dead letters of one topic as `replaying`, and resolves with the records to publish, in the
 * order of their positions. Skips dead letters that are settled, and rows that a worker has locked.
 */
export async function beginReplays(
  db: Queryable,
  topic: string,
  positions: readonly TopicPosition[],
  nowMs: number,
): Promise<Replay[]> {
  const { rows } = await db.query<Replay>(
    `update dead_letters set state = 'replaying', state_at = $5, replay = replay + 1, imported_offset = null
      where (${PLACE}) in (
        select ${PLACE} from dead_letters
         where topic = $1
           and (generation, partition, "offset") in (
             select g, p, o from unnest($2::integer[], $3::integer[], $4::bigint[]) as sent (g, p, o))
           and state in ('open', 'replaying') and value is not null
         order by ${PLACE} for update skip locked
      )
     returning generation, partition, "offset", replay, key, value, headers`,
    [topic, ...columnsOf(positions), new Date(nowMs)],
  );
  return rows.sort(comparePositions);
}

/** Reopens a dead letter whose replay cannot be published. */
export async function cancelReplay(
  db: Queryable,
  topic: string,
  { generation, partition, offset, replay }: Replay,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update dead_letters set state = 'open', state_at = $6
      where topic = $1 and generation = $2 and partition = $3 and "offset" = $4 and replay = $5 and state = 'replaying'`,
    [topic, generation, partition, offset, replay, new Date(nowMs)],
  );
}
