import type { Queryable } from '../../../postgres/pool.ts';
import type { StoredBounds } from './bounds.ts';

/** A partition that holds records, and how long its topic keeps them. */
export interface RetainedPartition extends StoredBounds {
  readonly retention_ms: bigint;
}

/** Reads the partitions that hold records. */
export async function readRetained(db: Queryable): Promise<RetainedPartition[]> {
  const { rows } = await db.query<RetainedPartition>(
    `select topic, partition, first_offset, next_offset, retention_ms
     from log_partitions
     where next_offset > first_offset
     order by topic, partition`,
  );
  return rows;
}

/** Which records of a partition may be deleted: those below `to`. */
export interface DeletableRange {
  readonly topic: string;
  readonly partition: number;
  readonly to: bigint;
}

/**
 * Deletes from the partition's start what was appended before `olderThan`, at most `recordsMax` records; resolves with
 * how many were deleted. One statement, so that the partition's first offset is right whenever it is read.
 */
export async function deleteOldRecords(
  db: Queryable,
  { topic, partition, to }: DeletableRange,
  olderThan: Date,
  recordsMax: number,
): Promise<number> {
  const { rows } = await db.query<{ deleted: number }>(
    `with head as (
       select "offset", appended_at from log_records
       where topic = $1 and partition = $2 and "offset" < $3
       order by "offset" limit $5
     ), old as (
       select coalesce(min("offset") filter (where appended_at >= $4), max("offset") + 1) as until from head
     ), deleted as (
       delete from log_records r using old
       where r.topic = $1 and r.partition = $2 and r."offset" < old.until
       returning 1
     ), moved as (
       update log_partitions p set first_offset = old.until from old
       where p.topic = $1 and p.partition = $2 and p.first_offset < old.until
     )
     select count(*)::int as deleted from deleted`,
    [topic, partition, to, olderThan, recordsMax],
  );
  return rows[0]!.deleted;
}
