import type { Queryable } from '../../../postgres/pool.ts';

/** Partitions and retention, in milliseconds, of the topics that exist. */
export async function describeLogTopics(
  db: Queryable,
  topics: readonly string[],
): Promise<Map<string, { readonly partitions: number; readonly retentionMs: number }>> {
  const { rows } = await db.query<{ topic: string; partitions: number; retention_ms: string | bigint }>(
    `SELECT topic, count(*)::int AS partitions, min(retention_ms) AS retention_ms
     FROM log_partitions WHERE topic = ANY ($1) GROUP BY topic`,
    [topics],
  );
  return new Map(
    rows.map(({ topic, partitions, retention_ms }) => [
      topic,
      { partitions, retentionMs: Number(retention_ms) },
    ]),
  );
}
