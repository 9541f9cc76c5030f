import { topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import {
  type ConsumerStatus,
  type EventLog,
  type PartitionBounds,
  POSITION_LOST,
} from '../../shared/log/log.ts';
import { loadPosition } from '../../shared/postgres/positions.ts';
import { loadTopicLayouts } from '../../shared/postgres/topics.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { classifyFault } from './faults.ts';
import {
  createPartitionRun,
  type PartitionRun,
  type PartitionRunDeps,
  type SlowReason,
  type Standing,
} from './partition-run.ts';
import { GO_ON } from './store-batch.ts';

export interface ConsumeDeps extends Omit<PartitionRunDeps, 'topic'> {
  readonly log: Pick<EventLog, 'createConsumer'>;
  /** What the names of topics and consumer groups begin with. */
  readonly prefix: string;
}

/**
 * A batch costs some ten statements however few records it has. Short against the second within which a conversation's
 * state can be read.
 */
const BATCH_INTERVAL_MS = 250;

/** How one topic's worker is doing. */
export interface TopicStatus {
  readonly topic: string;
  readonly consumer: ConsumerStatus;
  /** Why the topic, or one of its partitions, is not read or does not get on, in words. */
  readonly reasons: readonly string[];
  /** Whether one of the reasons hinders every partition alike, such as a database that is down. */
  readonly waiting: boolean;
  /** Since when the partition that has waited longest without a fault has been at its records. */
  readonly busySinceMs: number | undefined;
  readonly lastCommitMs: number | undefined;
}

export interface TopicConsumer {
  readonly topic: string;
  status(): TopicStatus;
  /** Where the partitions that are read, and have nothing to do, believe to stand. */
  standing(): ReadonlyMap<number, Standing>;
  /** Asks for the start of a partition anew. */
  askStart(partition: number): void;
  /** Finishes the batches that are being stored, and leaves the group. */
  close(): Promise<void>;
}

/**
 * Reads one kind's topic and stores its records: exactly once each, in order, what cannot be stored as dead letters.
 * Every partition starts where the database says that it ended, whatever the group's offset is.
 */
export function startConsuming<Row>(deps: ConsumeDeps, kind: RecordKind<Row>): TopicConsumer {
  const topic = topicOf(deps.prefix, kind.kind);
  const runs = new Map<number, PartitionRun>();

  async function startOffset(partition: number, bounds: PartitionBounds): Promise<bigint> {
    try {
      const { offset, ...standing } = await findStart(deps, topic, partition, bounds);
      await runs.get(partition)?.release();
      runs.set(partition, createPartitionRun({ ...deps, topic }, kind, partition, standing));
      return offset;
    } catch (error) {
      // What the log's status shows must be in words, and the driver's are not.
      const { text, kind: fault } = classifyFault(error);
      if (fault === 'stop') throw error;
      throw new AppError('START_UNKNOWN', text, { retryable: true, cause: error });
    }
  }

  const consumer = deps.log.createConsumer({
    topic,
    group: topic,
    batchRecordsMax: deps.batchRecordsMax,
    batchIntervalMs: BATCH_INTERVAL_MS,
    startOffset,
    onBatch: (batch) => runs.get(batch.partition)!.handle(batch),
  });

  function standing(): Map<number, Standing> {
    const { partitions, stopped } = consumer.status();
    return new Map(
      partitions.flatMap((partition) => {
        const stands = stopped.has(partition) ? undefined : runs.get(partition)?.standing();
        return stands ? [[partition, stands]] : [];
      }),
    );
  }

  return {
    topic,
    status: () => describe(topic, consumer.status(), runs, deps.clock.nowMs()),
    standing,
    askStart: (partition) => consumer.askStart(partition),
    async close() {
      await consumer.close();
      await Promise.all([...runs.values()].map((run) => run.release()));
    },
  };
}

/**
 * Where a partition is read from: one record before its position, so that the first batch shows whether the log is
 * still the same. Throws an AppError `POSITION_LOST` when going on would skip records.
 */
async function findStart(
  deps: ConsumeDeps,
  topic: string,
  partition: number,
  { earliest, latest }: PartitionBounds,
): Promise<Standing & { offset: bigint }> {
  const registered = (await loadTopicLayouts(deps.pool, topic)).get(topic);
  if (!registered) {
    throw new AppError('TOPIC_UNKNOWN', `${topic} is not registered: run \`npx sluice topics create\``, {
      retryable: true,
    });
  }
  const { generation } = registered;
  const position = await loadPosition(deps.pool, { topic, partition });
  const lost = (what: string): never => {
    throw new AppError(POSITION_LOST, `${topic}, partition ${partition}: ${what}; ${GO_ON}`);
  };
  if (position && position.generation !== generation) {
    lost(`its position is of generation ${position.generation}, not ${generation}`);
  }
  const nextOffset = position?.nextOffset ?? 0n;
  if (earliest > nextOffset) {
    lost(`records ${nextOffset} to ${earliest - 1n} are gone from the log and were not stored`);
  }
  if (latest < nextOffset) {
    lost(`the log ends at ${latest}, but records up to ${nextOffset} were stored`);
  }
  return { generation, nextOffset, offset: earliest < nextOffset ? nextOffset - 1n : nextOffset };
}

function describe(
  topic: string,
  consumer: ConsumerStatus,
  runs: ReadonlyMap<number, PartitionRun>,
  nowMs: number,
): TopicStatus {
  const assigned = consumer.partitions.flatMap((partition) => {
    const run = runs.get(partition);
    return run ? [{ partition, run, ...run.status() }] : [];
  });
  const commits = [...runs.values()].flatMap((run) => run.lastCommitMs() ?? []);
  const busy = assigned.flatMap(({ busySinceMs, fault }) => (fault ? [] : (busySinceMs ?? [])));
  const hindrances = new Set(
    assigned.flatMap(({ fault }) => (fault && fault.kind !== 'stop' ? fault.text : [])),
  );
  const slow = assigned.flatMap(({ run, fault }) => (fault ? [] : (run.slowBecause(nowMs) ?? [])));
  const stops = [
    ...stoppedPartitions(topic, consumer.stopped),
    ...assigned.flatMap(({ fault }) => (fault?.kind === 'stop' ? fault.text : [])),
  ];
  return {
    topic,
    consumer,
    reasons: [
      ...(consumer.problem === undefined ? [] : [consumer.problem]),
      ...(consumer.joined ? [] : ['not yet a member of its consumer group']),
      ...hindrances,
      ...(slow.length === 0 ? [] : [longest(slow)]),
      ...new Set(stops),
    ],
    waiting: consumer.problem !== undefined || hindrances.size > 0,
    busySinceMs: busy.length === 0 ? undefined : Math.min(...busy),
    lastCommitMs: commits.length === 0 ? undefined : Math.max(...commits),
  };
}

/** The reason of whoever has waited longest stands for all. */
function longest(slow: readonly SlowReason[]): string {
  return slow.reduce((one, other) => (other.sinceMs < one.sinceMs ? other : one)).text;
}

/** One sentence a reason, however many partitions it stops. */
function stoppedPartitions(topic: string, stopped: ConsumerStatus['stopped']): string[] {
  const partitions = new Map<string, number[]>();
  for (const [partition, reason] of stopped) {
    partitions.set(reason, [...(partitions.get(reason) ?? []), partition]);
  }
  return [...partitions].map(([reason, numbers]) => {
    if (reason.startsWith(topic)) return reason;
    const which = numbers.length === 1 ? 'partition' : 'partitions';
    return `${topic}, ${which} ${numbers.sort((a, b) => a - b).join(', ')}: ${reason}`;
  });
}
