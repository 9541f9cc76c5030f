import type { TopicPosition } from '../../shared/contracts/first-position.ts';
import { ERASE } from '../../shared/postgres/dead-letter-credentials.ts';
import { columnsOf } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/**
 * Marks dead letters as replayed because their replays were stored, regardless of their current
 * state. Runs in the caller's transaction.
 */
export async function settleReplayed(
  db: Queryable,
  topic: string,
  positions: readonly TopicPosition[],
  nowMs: number,
): Promise<void> {
  if (positions.length === 0) return;
  await db.query(
    `update dead_letters d set state = 'replayed', state_at = $5, imported_offset = null
       from unnest($2::integer[], $3::integer[], $4::bigint[]) as sent (generation, partition, "offset")
      where d.topic = $1 and d.generation = sent.generation and d.partition = sent.partition
        and d."offset" = sent."offset" and d.state <> 'replayed'`,
    [topic, ...columnsOf(positions), new Date(nowMs)],
  );
}

/** Numbers of dead letters by topic and reason. */
export interface DeadLetterCount {
  readonly topic: string;
  readonly reason: string;
  readonly count: number;
}

/** Counts open dead letters by topic and reason, of `max` at most. */
export async function countOpenDeadLetters(db: Queryable, max: number): Promise<DeadLetterCount[]> {
  const { rows } = await db.query<DeadLetterCount>(
    `select topic, reason, count(*)::integer as count
       from (select topic, reason from dead_letters
              where state in ('open', 'replaying') and state = 'open'
              limit $1) as counted
      group by topic, reason`,
    [max],
  );
  return rows;
}

/** Deletes up to `rowsMax` expired dead letters, and resolves with their number. */
export async function sweepDeadLetters(db: Queryable, nowMs: number, rowsMax: number): Promise<number> {
  const result = await db.query(
    `delete from dead_letters where (topic, generation, partition, "offset") in (
       select topic, generation, partition, "offset" from dead_letters
       where expires_at <= $1 order by expires_at limit $2 for update skip locked
     )`,
    [new Date(nowMs), rowsMax],
  );
  return result.rowCount ?? 0;
}

/**
 * Erases the values of up to `rowsMax` dead letters whose credentials have expired, and resolves
 * with their number. The rows stay.
 */
export async function eraseExpiredInDeadLetters(
  db: Queryable,
  nowMs: number,
  rowsMax: number,
): Promise<number> {
  const result = await db.query(
    `update dead_letters ${ERASE} where (topic, generation, partition, "offset") in (
       select topic, generation, partition, "offset" from dead_letters
       where value_expires_at <= $1 and value is not null
       order by value_expires_at limit $2 for update skip locked
     )`,
    [new Date(nowMs), rowsMax],
  );
  return result.rowCount ?? 0;
}
