import type { Column } from '../../shared/postgres/bulk-rows.ts';

/** Position of a record in its entity's order. */
export interface OrderedAt {
  readonly generation: number;
  readonly offset: bigint;
}

export interface ReadAt extends OrderedAt {
  readonly partition: number;
}

/** Where a record was read in this attempt, and where it was read first. */
interface ReadPositions {
  readonly read: ReadAt;
  readonly firstPosition: ReadAt;
}

/** Returns where a record was read, if that is not its first position: only a replay is read again. */
export function lateReadOf({ read, firstPosition }: ReadPositions): ReadAt | undefined {
  if (read === firstPosition) return undefined;
  const isFirst =
    read.offset === firstPosition.offset &&
    read.partition === firstPosition.partition &&
    read.generation === firstPosition.generation;
  return isFirst ? undefined : read;
}

/**
 * Returns the columns with the positions of late reads, which exports follow. They are NULL in other
 * rows, and left out if no row has one: almost all statements are without replays, and a column costs
 * time for each row.
 */
export function lateReadColumns<Row>(
  rows: readonly Row[],
  lateRead: (row: Row) => ReadAt | undefined,
): Column<Row>[] {
  if (rows.every((row) => lateRead(row) === undefined)) return [];
  return [
    { name: 'read_generation', type: 'integer', value: (row) => lateRead(row)?.generation },
    { name: 'read_partition', type: 'integer', value: (row) => lateRead(row)?.partition },
    { name: 'read_offset', type: 'bigint', value: (row) => lateRead(row)?.offset },
  ];
}
