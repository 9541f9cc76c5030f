import { type Column, unnestRows } from '../../shared/postgres/bulk-rows.ts';
import { POSITION_COLUMNS, type PositionRow } from '../../shared/postgres/log-positions.ts';
import type { Pool, Queryable } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

export interface PartitionKey {
  readonly topic: string;
  readonly partition: number;
}

/** Starts without a commit after which a partition's next records are processed one at a time. */
const STARTS_BEFORE_SUSPICION = 3;

/** Reads a partition's position; undefined if the partition was never started. */
export async function loadPosition(db: Queryable, key: PartitionKey): Promise<PositionRow | undefined> {
  const { rows } = await db.query<PositionRow>(
    `select ${POSITION_COLUMNS} from log_positions where topic = $1 and partition = $2`,
    [key.topic, key.partition],
  );
  return rows[0];
}

/**
 * Reads and locks a partition's position until the transaction ends. Only the holder of the lock
 * can write the partition's records.
 */
export async function lockPosition(db: Queryable, key: PartitionKey): Promise<PositionRow | undefined> {
  const { rows } = await db.query<PositionRow>(
    `select ${POSITION_COLUMNS} from log_positions where topic = $1 and partition = $2 for update`,
    [key.topic, key.partition],
  );
  return rows[0];
}

/**
 * Reads and locks the positions of partitions until the transaction ends, in order. Leaves out
 * those that another session has locked.
 */
export async function lockFreePositions(
  db: Queryable,
  topic: string,
  partitions: readonly number[],
): Promise<Map<number, PositionRow>> {
  const { rows } = await db.query<PositionRow & { partition: number }>(
    `select partition, ${POSITION_COLUMNS} from log_positions
      where topic = $1 and partition = any ($2::integer[])
      order by partition
        for update skip locked`,
    [topic, partitions],
  );
  return new Map(rows.map(({ partition, ...position }) => [partition, position]));
}

export interface StartOptions {
  /** The generation of a new row. */
  readonly generation: number;
  /**
   * The maximum number of records in a batch, which limits how far a batch that crashed the process
   * can have read.
   */
  readonly batchRecordsMax: number;
  /** The current end of the partition. */
  readonly latest: bigint;
  readonly nowMs: number;
}

/**
 * Counts a start of the partition before its first batch, and creates its row at the first start.
 * Records become suspects only if some are waiting, so the range of suspects is never empty.
 */
export async function countStart(
  db: Queryable,
  key: PartitionKey,
  options: StartOptions,
): Promise<PositionRow> {
  const { rows } = await db.query<PositionRow>(
    `insert into log_positions as p (topic, partition, generation, next_offset, starts, updated_at)
     values ($1, $2, $3, 0, 1, $4)
     on conflict (topic, partition) do update
     set starts = p.starts + 1,
         suspect_end = case
           when p.suspect_end > p.next_offset then p.suspect_end
           when p.starts >= $5 and $7 > p.next_offset then least(p.next_offset + $6, $7)
         end,
         updated_at = $4
     returning ${POSITION_COLUMNS}`,
    [
      key.topic,
      key.partition,
      options.generation,
      new Date(options.nowMs),
      STARTS_BEFORE_SUSPICION,
      options.batchRecordsMax,
      options.latest,
    ],
  );
  return rows[0]!;
}

/**
 * Reverts the count of a start that ended in order without a commit, and that of the record that it
 * processed alone.
 */
export async function revertStart(
  db: Queryable,
  key: PartitionKey,
  aloneOffset: bigint | null,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update log_positions
     set starts = greatest(starts - 1, 0),
         alone_starts = case when alone_offset = $3 then greatest(alone_starts - 1, 0) else alone_starts end,
         updated_at = $4
     where topic = $1 and partition = $2`,
    [key.topic, key.partition, aloneOffset, new Date(nowMs)],
  );
}

/**
 * Counts that a record is now processed alone. Returns the number of earlier starts that processed
 * the record alone, all of which ended without a commit.
 */
export async function countAloneStart(
  db: Queryable,
  key: PartitionKey,
  offset: bigint,
  nowMs: number,
): Promise<number> {
  const { rows } = await db.query<{ alone_starts: number }>(
    `update log_positions
     set alone_starts = case when alone_offset = $3 then alone_starts + 1 else 1 end,
         alone_offset = $3,
         updated_at = $4
     where topic = $1 and partition = $2
     returning alone_starts`,
    [key.topic, key.partition, offset, new Date(nowMs)],
  );
  return (rows[0]?.alone_starts ?? 1) - 1;
}

/**
 * Reverts the count of a record that is processed alone. The record waits for a retry, so it does
 * not cause a crash in the meantime.
 */
export async function revertAloneStart(
  db: Queryable,
  key: PartitionKey,
  offset: bigint,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update log_positions
     set alone_starts = greatest(alone_starts - 1, 0), updated_at = $4
     where topic = $1 and partition = $2 and alone_offset = $3`,
    [key.topic, key.partition, offset, new Date(nowMs)],
  );
}

/** A partition's position after its records were stored. */
export interface NextPosition {
  readonly partition: number;
  readonly nextOffset: bigint;
  readonly lastId: string | null;
}

const NEXT_COLUMNS: readonly Column<NextPosition>[] = [
  { name: 'partition', type: 'integer', value: ({ partition }) => partition },
  { name: 'next_offset', type: 'bigint', value: ({ nextOffset }) => nextOffset },
  { name: 'last_id', type: 'text', value: ({ lastId }) => lastId },
];

/**
 * Moves positions of a topic, which are locked, past the stored records. Clears a range of suspects
 * when the position passes its end.
 */
export async function advancePositions(
  db: Queryable,
  topic: string,
  next: readonly NextPosition[],
  nowMs: number,
): Promise<void> {
  const { select, values } = unnestRows(NEXT_COLUMNS, next);
  await db.query(
    `update log_positions p
     set next_offset = n.next_offset,
         last_id = n.last_id,
         starts = case when p.suspect_end > n.next_offset then p.starts else 0 end,
         suspect_end = case when p.suspect_end > n.next_offset then p.suspect_end end,
         alone_offset = null,
         alone_starts = 0,
         updated_at = $5
     from (${select}) n
     where p.topic = $4 and p.partition = n.partition`,
    [...values, topic, new Date(nowMs)],
  );
}

/** A partition's position in the database. */
export interface WatchedPosition {
  readonly topic: string;
  /** The partition; null, as all later members, if the topic has no positions. */
  readonly partition: number | null;
  readonly topicGeneration: number;
  readonly generation: number | null;
  readonly nextOffset: bigint | null;
}

/**
 * Resolves with the generations of the topics and the positions of their partitions. Rejects after
 * `deadlineMs`.
 */
export async function watchPositions(
  pool: Pool,
  topics: readonly string[],
  deadlineMs: number,
): Promise<WatchedPosition[]> {
  return await queryWithDeadline<WatchedPosition>(
    pool,
    deadlineMs,
    `select t.topic, t.generation as "topicGeneration", p.partition, p.generation, p.next_offset as "nextOffset"
     from log_topics t left join log_positions p on p.topic = t.topic
     where t.topic = any ($1::text[])`,
    [topics],
  );
}
