import { fingerprint } from '../shared/log/fingerprint.ts';
import type { LogReader, PartitionBounds } from '../shared/log/log.ts';
import type { AcceptedTopic } from '../shared/postgres/accept-log.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { type PositionRow, positionsOf } from '../shared/postgres/positions.ts';
import type { RegisteredTopic } from '../shared/postgres/topics.ts';

/**
 * How a partition of the log compares with its position.
 * - `fits`: it goes on where it is stored up to.
 * - `ends-below`: the log ends below what was stored from it.
 * - `other-record`: the record before the position is not the one that was stored.
 * - `gone`: records between what was stored and the log's first one are gone.
 * - `other-generation`: it fits, but its generation is not the topic's.
 */
export type Finding = 'fits' | 'ends-below' | 'other-record' | 'gone' | 'other-generation';

/** What was found of one partition, and where it would be read from. */
export interface PartitionPlan {
  readonly partition: number;
  readonly finding: Finding;
  readonly bounds: PartitionBounds;
  readonly position: PositionRow | undefined;
  readonly nextOffset: bigint;
  /** Records that are gone and were not stored; of another log nobody can tell. */
  readonly skipped: bigint;
}

export interface AcceptPlan {
  readonly topic: string;
  readonly generationFound: number;
  readonly generation: number;
  readonly partitions: readonly PartitionPlan[];
}

/** Compares a topic's partitions, in their order, with their positions. Throws what reading the log throws. */
export async function planAccept(
  pool: Pool,
  reader: LogReader,
  topic: string,
  registered: RegisteredTopic,
  bounds: ReadonlyMap<number, PartitionBounds>,
): Promise<AcceptPlan> {
  const positions = await positionsOf(pool, topic);
  const newest = Math.max(registered.generation, ...[...positions.values()].map((row) => row.generation));
  const partitions: PartitionPlan[] = [];
  for (const [partition, held] of [...bounds].sort(([a], [b]) => a - b)) {
    const position = positions.get(partition);
    const stands = position ?? { nextOffset: 0n, lastId: null, generation: newest };
    const finding = await compare(reader, { topic, partition }, stands, held, newest);
    const moves = mustMove(finding);
    partitions.push({
      partition,
      finding,
      bounds: held,
      position,
      nextOffset: moves ? held.earliest : stands.nextOffset,
      skipped: finding === 'gone' ? held.earliest - stands.nextOffset : 0n,
    });
  }
  const otherLog = partitions.some(({ finding }) => finding === 'ends-below' || finding === 'other-record');
  return {
    topic,
    generationFound: registered.generation,
    generation: otherLog ? newest + 1 : newest,
    partitions,
  };
}

/** Whether the plan would change anything. */
export const isChange = ({ generation, generationFound, partitions }: AcceptPlan): boolean =>
  generation !== generationFound || partitions.some(({ finding }) => finding !== 'fits');

export function toAccepted({ topic, generation, partitions }: AcceptPlan): AcceptedTopic {
  const moved = partitions.filter(({ finding }) => mustMove(finding));
  const staying = partitions.filter(({ finding }) => !mustMove(finding));
  return {
    topic,
    generation,
    stay: staying.map(({ partition }) => partition),
    move: moved.map(({ partition, position, nextOffset }) => ({ partition, from: position, to: nextOffset })),
  };
}

function mustMove(finding: Finding): boolean {
  return finding === 'ends-below' || finding === 'other-record' || finding === 'gone';
}

async function compare(
  reader: LogReader,
  place: { readonly topic: string; readonly partition: number },
  { nextOffset, lastId, generation }: Pick<PositionRow, 'nextOffset' | 'lastId' | 'generation'>,
  { earliest, latest }: PartitionBounds,
  newest: number,
): Promise<Finding> {
  if (latest < nextOffset) return 'ends-below';
  if (earliest > nextOffset) return 'gone';
  if (earliest < nextOffset && lastId !== null) {
    const range = { ...place, from: nextOffset - 1n, to: nextOffset };
    for await (const [record] of reader.pages(range)) {
      if (record && record.offset === nextOffset - 1n && fingerprint(record) !== lastId)
        return 'other-record';
    }
  }
  return generation === newest ? 'fits' : 'other-generation';
}
