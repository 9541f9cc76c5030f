import type { Queryable } from '../../../postgres/pool.ts';

/** A partition whose first record may be too old to keep. */
export interface RetainedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly retention_ms: bigint;
  /** Records from here on stay whatever their age: a group has not handled them. */
  readonly keep_from: bigint;
}

/** The partitions that hold records which every group of their topic has handled; topics without groups count too. */
export async function readRetained(db: Queryable): Promise<RetainedPartition[]> {
  const result = await db.query<RetainedPartition>(
    `SELECT topic, partition, retention_ms, keep_from
     FROM (
       SELECT p.topic, p.partition, p.retention_ms, p.first_offset,
              -- Without a group the join still gives a row, of nulls.
              coalesce(min(coalesce(g.next_offset, 0)) FILTER (WHERE g.group_name IS NOT NULL), p.next_offset)
                AS keep_from
       FROM log_partitions p LEFT JOIN log_group_partitions g USING (topic, partition)
       GROUP BY p.topic, p.partition
     ) AS held
     WHERE keep_from > first_offset
     ORDER BY topic, partition`,
  );
  return result.rows;
}

/**
 * Deletes from the partition's start what was appended before `olderThan`, at most `recordsMax` records; resolves with
 * how many went. One statement, so that the partition's first offset is right whenever anybody looks.
 */
export async function deleteOldRecords(
  db: Queryable,
  { topic, partition, keep_from }: RetainedPartition,
  olderThan: Date,
  recordsMax: number,
): Promise<number> {
  const result = await db.query<{ deleted: number }>(
    `WITH head AS (
       SELECT "offset", appended_at FROM log_records
       WHERE topic = $1 AND partition = $2 AND "offset" < $3
       ORDER BY "offset" LIMIT $5
     ), old AS (
       SELECT coalesce(min("offset") FILTER (WHERE appended_at >= $4), max("offset") + 1) AS until FROM head
     ), deleted AS (
       DELETE FROM log_records r USING old
       WHERE r.topic = $1 AND r.partition = $2 AND r."offset" < old.until
       RETURNING 1
     ), moved AS (
       UPDATE log_partitions p SET first_offset = old.until FROM old
       WHERE p.topic = $1 AND p.partition = $2 AND p.first_offset < old.until
     )
     SELECT count(*)::int AS deleted FROM deleted`,
    [topic, partition, keep_from, olderThan, recordsMax],
  );
  return result.rows[0]!.deleted;
}

/** Forgets members of consumer groups that have not been alive since `before`. */
export async function deleteDeadMembers(db: Queryable, before: Date): Promise<void> {
  await db.query('DELETE FROM log_group_members WHERE alive_until < $1', [before]);
}
