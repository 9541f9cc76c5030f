import type { Queryable } from '../../../postgres/pool.ts';

/** Creates a topic's partitions unless it exists; resolves with whether it was made. An existing one stays as it is. */
export async function createLogTopic(
  db: Queryable,
  spec: { readonly topic: string; readonly partitions: number; readonly retentionMs: number },
): Promise<boolean> {
  const result = await db.query(
    `INSERT INTO log_partitions (topic, partition, first_offset, next_offset, retention_ms)
     SELECT $1, partition, 0, 0, $3 FROM generate_series(0, $2::int - 1) AS partition
     WHERE NOT EXISTS (SELECT 1 FROM log_partitions WHERE topic = $1)
     ON CONFLICT (topic, partition) DO NOTHING
     RETURNING partition`,
    [spec.topic, spec.partitions, spec.retentionMs],
  );
  return (result.rowCount ?? 0) > 0;
}
