import type { Queryable } from '../../../postgres/pool.ts';

/** The offsets of one partition: that of the first record kept, and that of the next record. */
export interface StoredBounds {
  readonly topic: string;
  readonly partition: number;
  readonly firstOffset: bigint;
  readonly nextOffset: bigint;
}

/** Reads the bounds of all partitions of those topics that exist. */
export async function readBounds(db: Queryable, topics: readonly string[]): Promise<StoredBounds[]> {
  const { rows } = await db.query<StoredBounds>(
    `select topic, partition, first_offset as "firstOffset", next_offset as "nextOffset"
     from log_partitions where topic = any ($1::text[])`,
    [topics],
  );
  return rows;
}

/** A partition that holds records, and how long its topic keeps them. */
export interface RetainedPartition extends StoredBounds {
  readonly retentionMs: bigint;
}

/** Reads the partitions that hold records. */
export async function readRetained(db: Queryable): Promise<RetainedPartition[]> {
  const { rows } = await db.query<RetainedPartition>(
    `select topic, partition, first_offset as "firstOffset", next_offset as "nextOffset",
            retention_ms as "retentionMs"
     from log_partitions
     where next_offset > first_offset
     order by topic, partition`,
  );
  return rows;
}

/**
 * Creates a topic with its partitions; resolves with whether it was created. An existing topic
 * stays unchanged.
 */
export async function createLogTopic(
  db: Queryable,
  spec: { readonly topic: string; readonly partitions: number; readonly retentionMs: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into log_partitions (topic, partition, first_offset, next_offset, retention_ms)
     select $1, partition, 0, 0, $3 from generate_series(0, $2::int - 1) as partition
     where not exists (select 1 from log_partitions where topic = $1)
     on conflict (topic, partition) do nothing
     returning partition`,
    [spec.topic, spec.partitions, spec.retentionMs],
  );
  return (rowCount ?? 0) > 0;
}

/**
 * Returns the number of partitions and the retention, in milliseconds, of those topics that exist.
 */
export async function describeLogTopics(
  db: Queryable,
  topics: readonly string[],
): Promise<Map<string, { readonly partitions: number; readonly retentionMs: number }>> {
  const { rows } = await db.query<{ topic: string; partitions: number; retentionMs: bigint }>(
    `select topic, count(*)::int as partitions, min(retention_ms) as "retentionMs"
     from log_partitions where topic = any ($1::text[]) group by topic`,
    [topics],
  );
  return new Map(
    rows.map(({ topic, partitions, retentionMs }) => [
      topic,
      { partitions, retentionMs: Number(retentionMs) },
    ]),
  );
}
