import type { Queryable } from './pool.ts';

/**
 * The position up to which a partition is stored, and the records that are suspected of crashing
 * the process.
 */
export interface PositionRow {
  readonly generation: number;
  readonly nextOffset: bigint;
  /** Fingerprint of the record at nextOffset - 1; null before the first record. */
  readonly lastId: string | null;
  /** Starts since the last commit, including the current one. */
  readonly starts: number;
  /** Records before this offset are processed one at a time; null if no record is suspected. */
  readonly suspectEnd: bigint | null;
  /** The last record that was processed alone, and the number of starts in which it was. */
  readonly aloneOffset: bigint | null;
  readonly aloneStarts: number;
}

/** The columns of a {@link PositionRow}. */
export const POSITION_COLUMNS = `generation, next_offset as "nextOffset", last_id as "lastId", starts, suspect_end as "suspectEnd",
  alone_offset as "aloneOffset", alone_starts as "aloneStarts"`;

/**
 * Reads all positions of a topic by partition. With `lock`, locks them in order until the
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
