import { AppError } from '../errors.ts';
import { untilCommittedOnWorkers } from './pending-commits.ts';
import type { Queryable } from './pool.ts';

/** A place in one partition of a topic: the next record to read. */
export interface ExportPlace {
  readonly generation: number;
  readonly offset: bigint;
}

/** A place in each partition of a topic. A partition that is missing is at its start. */
export type ExportPositions = ReadonlyMap<number, ExportPlace>;

/** The place before the first record of a partition. */
export const PARTITION_START: ExportPlace = { generation: 0, offset: 0n };

/**
 * Resolves with the place in each partition up to which workers have stored the records. A worker moves
 * it in the transaction that stores records, so all rows below it can be read. Rejects with AppError
 * `TOPIC_UNREGISTERED`, or as {@link untilCommittedOnWorkers}.
 */
export async function readExportEnd(db: Queryable, topic: string): Promise<ExportPositions> {
  const { rows } = await db.query<ExportPlace & { readonly partition: number | null }>(
    `select p.partition, p.generation, p.next_offset as "offset"
       from log_topics t left join log_positions p on p.topic = t.topic where t.topic = $1 order by p.partition`,
    [topic],
  );
  if (rows.length === 0) {
    throw new AppError(
      'TOPIC_UNREGISTERED',
      `the topic ${topic} is not registered: correct SLUICE_TOPIC_PREFIX, or run \`./sluice topics create\``,
    );
  }
  if (db.isCitus) await untilCommittedOnWorkers(db);
  // A topic that no worker has read yet has one row without a partition.
  return new Map(rows.flatMap(({ partition, ...place }) => (partition === null ? [] : [[partition, place]])));
}

/** Returns a number below 0 if `a` is before `b`. */
export function comparePlaces(a: ExportPlace, b: ExportPlace): number {
  return a.generation - b.generation || Number(a.offset - b.offset);
}

/** Returns the positions as text, which {@link parseExportPositions} reads. */
export function formatExportPositions(positions: ExportPositions): string {
  return [...positions]
    .sort(([a], [b]) => a - b)
    .map(([partition, { generation, offset }]) => `${partition}.${generation}.${offset}`)
    .join(',');
}

const PLACE = /^(\d{1,9})\.(\d{1,9})\.(\d{1,18})$/;

/** Returns the positions; undefined if {@link formatExportPositions} did not return the text. */
export function parseExportPositions(text: string): ExportPositions | undefined {
  const positions = new Map<number, ExportPlace>();
  for (const part of text === '' ? [] : text.split(',')) {
    const match = PLACE.exec(part);
    if (!match) return undefined;
    positions.set(Number(match[1]), { generation: Number(match[2]), offset: BigInt(match[3]!) });
  }
  return formatExportPositions(positions) === text ? positions : undefined;
}

/**
 * Returns whether no place is beyond the end: a place that an export has reached never is, unless the
 * database was restored.
 */
export function areWithin(positions: ExportPositions, end: ExportPositions): boolean {
  return [...positions].every(([partition, place]) => {
    const last = end.get(partition);
    return last !== undefined && comparePlaces(place, last) <= 0;
  });
}
