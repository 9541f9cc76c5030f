import type { FirstPosition } from '../../shared/contracts/first-position.ts';
import {
  type DeadLetterFilter,
  filterCondition,
  filterValues,
  PLACE,
} from '../../shared/postgres/dead-letter-lists.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/**
 * Requests the replay of up to `limit` dead letters, which a gateway publishes, and resolves with
 * their first positions. Skips those without a value, and rows that another session has locked.
 */
export async function requestReplays(
  db: Queryable,
  filter: DeadLetterFilter,
  limit: number,
  nowMs: number,
): Promise<FirstPosition[]> {
  const { rows } = await db.query<FirstPosition>(
    `update dead_letters
        set state = 'replaying', state_at = $15, replay_requested_at = $15, replay = replay + 1, imported_offset = null
      where (${PLACE}) in (
        select ${PLACE} from dead_letters
         where ${filterCondition(filter)} and value is not null
         order by ${PLACE} limit $14 for update skip locked
      )
     returning ${PLACE}`,
    [...filterValues(filter), limit, new Date(nowMs)],
  );
  return rows;
}

/** Resolves with the number of dead letters that match, counted up to `max`. */
export async function countDeadLetters(
  db: Queryable,
  filter: DeadLetterFilter,
  max: number,
): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::integer as count
       from (select 1 from dead_letters where ${filterCondition(filter)} limit $14) as counted`,
    [...filterValues(filter), max],
  );
  return rows[0]!.count;
}
