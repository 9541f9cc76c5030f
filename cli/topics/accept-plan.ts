import { AppError } from '../../shared/errors.ts';
import { fingerprint } from '../../shared/log/fingerprint.ts';
import type { LogReader, PartitionBounds } from '../../shared/log/log.ts';
import { type PositionRow, positionsOf } from '../../shared/postgres/log-positions.ts';
import { loadTopicLayouts, type RegisteredTopic } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { AcceptedTopic } from '../sql/log-positions.ts';

/**
 * The relation of a partition of the log to its stored position.
 * - `fits`: the log continues at the position.
 * - `ends-below`: the log ends before the position.
 * - `other-record`: the record before the position is not the record that was stored.
 * - `gone`: records between the position and the first record of the log were lost.
 * - `other-generation`: as `fits`, but the position has another generation than the topic.
 */
export type Finding = 'fits' | 'ends-below' | 'other-record' | 'gone' | 'other-generation';

/** The finding about one partition, and its new position. */
export interface PartitionPlan {
  readonly partition: number;
  readonly finding: Finding;
  readonly bounds: PartitionBounds;
  readonly position: PositionRow | undefined;
  readonly nextOffset: bigint;
  /**
   * Number of records that were lost before they were stored. The number is 0 for another log,
   * where it is unknown.
   */
  readonly skipped: bigint;
}

export interface AcceptPlan {
  readonly topic: string;
  readonly generationFound: number;
  readonly generation: number;
  /** Number of partitions in use; the log may have more. */
  readonly partitionsRegistered: number;
  /** Number of partitions to store, by topic; empty without a change. */
  readonly layouts: ReadonlyMap<string, number>;
  readonly partitions: readonly PartitionPlan[];
}

/** The state of a topic, by partition. */
interface FoundTopic {
  readonly topic: string;
  readonly registered: RegisteredTopic;
  /**
   * The positions are read before the bounds, so that a concurrent worker is never ahead of the
   * log.
   */
  readonly positions: ReadonlyMap<number, PositionRow>;
  readonly bounds: ReadonlyMap<number, PartitionBounds>;
}

export interface PlanOptions {
  /** Whether to use partitions that were added to a topic. */
  readonly takePartitions: boolean;
}

/**
 * Compares topics with their positions. Throws an AppError with the next step if a topic cannot be
 * accepted.
 */
export async function planAccepts(
  pool: Pool,
  reader: LogReader,
  topics: readonly string[],
  options: PlanOptions,
): Promise<AcceptPlan[]> {
  const plans: AcceptPlan[] = [];
  for (const found of await find(pool, reader, topics)) plans.push(await planAccept(reader, found, options));
  return plans;
}

async function find(pool: Pool, reader: LogReader, topics: readonly string[]): Promise<FoundTopic[]> {
  const positions = new Map<string, FoundTopic['positions']>();
  for (const topic of topics) positions.set(topic, await positionsOf(pool, topic));
  const bounds = await reader.bounds(topics);
  const found: FoundTopic[] = [];
  for (const topic of topics) {
    const registered = (await loadTopicLayouts(pool, topic)).get(topic);
    if (!registered) {
      throw new AppError('TOPIC_UNKNOWN', `${topic} is not registered: run \`./sluice topics create\``);
    }
    const { partitions } = registered;
    const held = bounds.get(topic);
    if (!held) {
      throw new AppError(
        'TOPIC_MISSING',
        `the log has no topic ${topic}: create it with \`./sluice topics create --partitions ${partitions}\`, then run this command again`,
      );
    }
    if (held.size < partitions) {
      throw new AppError(
        'TOPIC_LAYOUT_DIFFERS',
        `${topic} is registered with ${partitions} partitions, but the log has ${held.size}: the partition of every key depends on the ` +
          `number. Delete the topic with its records and run \`./sluice topics create --partitions ${partitions}\`; then run this command again`,
      );
    }
    found.push({ topic, registered, positions: positions.get(topic)!, bounds: held });
  }
  return found;
}

/**
 * Compares the partitions of a topic, in order, with their positions. Throws the errors of the log.
 */
async function planAccept(
  reader: LogReader,
  { topic, registered, positions, bounds }: FoundTopic,
  { takePartitions }: PlanOptions,
): Promise<AcceptPlan> {
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
  const takes = takePartitions && bounds.size > registered.partitions;
  if (takes) requireAllStored(topic, partitions);
  return {
    topic,
    generationFound: registered.generation,
    generation: otherLog || takes ? newest + 1 : newest,
    partitionsRegistered: registered.partitions,
    layouts: new Map(takes ? [[topic, bounds.size]] : []),
    partitions,
  };
}

/**
 * Throws if records are not stored yet. A new number of partitions moves keys to other partitions.
 * Then the records of an entity would be stored out of order, since some are in its old partition.
 */
function requireAllStored(topic: string, partitions: readonly PartitionPlan[]) {
  const waiting = partitions.filter(({ bounds, nextOffset, finding }) => {
    return (finding !== 'fits' && finding !== 'other-generation') || bounds.latest > nextOffset;
  });
  if (waiting.length === 0) return;
  throw new AppError(
    'RECORDS_WAIT',
    `${topic} has records that are not stored yet, in ${waiting.length === 1 ? 'partition' : 'partitions'} ` +
      `${waiting.map(({ partition }) => partition).join(', ')}: stop the gateways, wait until \`./sluice lag\` shows none, ` +
      'and run this command again',
    { retryable: true },
  );
}

/** Returns whether the plan would change anything. */
export const isChange = ({ generation, generationFound, partitions }: AcceptPlan): boolean =>
  generation !== generationFound || partitions.some(({ finding }) => finding !== 'fits');

export function toAcceptedTopic({ topic, generation, layouts, partitions }: AcceptPlan): AcceptedTopic {
  const moved = partitions.filter(({ finding }) => mustMove(finding));
  const staying = partitions.filter(({ finding }) => !mustMove(finding));
  return {
    topic,
    generation,
    layouts,
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
