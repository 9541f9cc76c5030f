import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** A partition's position in the database. */
export interface WatchedPosition {
  readonly topic: string;
  /** Null, as the rest, for a topic without positions. */
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
