import type { Queryable } from './pool.ts';

/** How far a partition is stored, and which records are suspected of crashing the process. */
export interface PositionRow {
  readonly generation: number;
  readonly nextOffset: bigint;
  /** Fingerprint of the record at nextOffset - 1; null before the first. */
  readonly lastId: string | null;
  /** Starts since the last commit, the running one included. */
  readonly starts: number;
  /** Records before this offset are processed one at a time; null when none is suspected. */
  readonly suspectEnd: bigint | null;
  /** The record that was processed alone last, and in how many starts. */
  readonly aloneOffset: bigint | null;
  readonly aloneStarts: number;
}

/** The columns of a {@link PositionRow}. */
export const POSITION_COLUMNS = `generation, next_offset as "nextOffset", last_id as "lastId", starts, suspect_end as "suspectEnd",
  alone_offset as "aloneOffset", alone_starts as "aloneStarts"`;

/**
 * Reads all positions of a topic by partition; with `lock`, locks them in order until the
 * transaction ends.
 */
export async function positionsOf(
  db: Queryable,
  topic: string,
  { lock = false } = {},
): Promise<Map<number, PositionRow>> {
  const { rows } = await db.query<PositionRow & { partition: number }>(
    `select partition, ${POSITION_COLUMNS} from log_positions where topic = $1 order by partition${lock ? ' for update' : ''}`,
    [topic],
  );
  return new Map(rows.map(({ partition, ...position }) => [partition, position]));
}
