import type { Queryable } from '../../../postgres/pool.ts';

/** The offsets of one partition: the first one kept, and the one that the next record gets. */
export interface StoredBounds {
  readonly topic: string;
  readonly partition: number;
  readonly first_offset: bigint;
  readonly next_offset: bigint;
}

/** Reads the bounds of all partitions of the topics that exist. */
export async function readBounds(db: Queryable, topics: readonly string[]): Promise<StoredBounds[]> {
  const result = await db.query<StoredBounds>(
    'SELECT topic, partition, first_offset, next_offset FROM log_partitions WHERE topic = ANY ($1)',
    [topics],
  );
  return result.rows;
}
