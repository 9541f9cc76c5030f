import type { FirstPosition, TopicPosition } from '../../shared/contracts/first-position.ts';
import {
  type DeadLetterFilter,
  filterCondition,
  filterValues,
  PLACE,
} from '../../shared/postgres/dead-letter-lists.ts';
import type { Replay } from '../../shared/postgres/dead-letter-replays.ts';
import { columnsOf, comparePositions } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

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
       from (select topic, reason from dead_letters where ${filterCondition(filter)} order by ${PLACE} limit $14) as chosen
      group by topic, reason order by topic, reason`,
    [...filterValues(filter), limit],
  );
  return rows;
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
      where ${filterCondition(filter)} and ($15::text is null or (${PLACE}) > ($15::text, $16::integer, $17::integer, $18::bigint))
      order by ${PLACE} limit $14`,
    [...filterValues(filter), limit, after?.topic, after?.generation, after?.partition, after?.offset],
  );
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }));
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
