import type { Queryable } from '../../shared/postgres/pool.ts';

/** How far a partition is stored. */
export interface StoredPosition {
  readonly topic: string;
  readonly partition: number;
  /** Offsets below are stored. */
  readonly nextOffset: bigint;
}

/** The positions of the topics' partitions of which any record was begun. */
export async function listPositions(db: Queryable, topics: readonly string[]): Promise<StoredPosition[]> {
  const { rows } = await db.query<StoredPosition>(
    'select topic, partition, next_offset as "nextOffset" from log_positions where topic = any ($1::text[])',
    [topics],
  );
  return rows;
}
