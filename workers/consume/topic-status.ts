import type { ConsumerStatus } from '../../shared/log/log.ts';
import type { PartitionConsumer } from './partition-consumer.ts';
import type { SlowReason } from './partition-status.ts';

/** The state of one topic's worker. */
export interface TopicStatus {
  readonly topic: string;
  readonly consumer: ConsumerStatus;
  /**
   * The reasons why the topic or some of its partitions are stalled or not being read, as texts for
   * operators.
   */
  readonly reasons: readonly string[];
  /** Whether one of the reasons affects all partitions equally, such as a database that is down. */
  readonly waiting: boolean;
  /**
   * When the partition that has been busy longest without a fault became busy with its current
   * records.
   */
  readonly busySinceMs: number | undefined;
  readonly lastCommitMs: number | undefined;
}

type Partitions = ReadonlyMap<number, Pick<PartitionConsumer<unknown>, 'status' | 'slowBecause'>>;

/** Summarizes the partitions of a topic. */
export function topicStatus(
  topic: string,
  consumer: ConsumerStatus,
  partitions: Partitions,
  nowMs: number,
): TopicStatus {
  const assigned = consumer.partitions.flatMap((partition) => partitions.get(partition) ?? []);
  const healthy = assigned.filter(({ status }) => !status.fault);
  const faults = assigned.flatMap(({ status }) => status.fault ?? []);
  const commits = [...partitions.values()].flatMap(({ status }) => status.committedMs ?? []);
  const busy = healthy.flatMap(({ status }) => status.busySinceMs ?? []);
  const slow = healthy.flatMap((partition) => partition.slowBecause(nowMs) ?? []);
  const stalls = new Set(faults.flatMap(({ kind, text }) => (kind === 'stop' ? [] : text)));
  const stops = new Set([
    ...stoppedPartitions(topic, consumer.stopped),
    ...faults.flatMap(({ kind, text }) => (kind === 'stop' ? text : [])),
  ]);
  return {
    topic,
    consumer,
    reasons: [
      ...(consumer.problem === undefined ? [] : [consumer.problem]),
      ...(consumer.joined ? [] : ['not yet a member of its consumer group']),
      ...stalls,
      ...(slow.length === 0 ? [] : [longest(slow).text]),
      ...stops,
    ],
    waiting: consumer.problem !== undefined || stalls.size > 0,
    busySinceMs: busy.length === 0 ? undefined : Math.min(...busy),
    lastCommitMs: commits.length === 0 ? undefined : Math.max(...commits),
  };
}

/** Returns the reason of the partition that has waited longest, as an example for all. */
function longest(slow: readonly SlowReason[]): SlowReason {
  return slow.reduce((one, other) => (other.sinceMs < one.sinceMs ? other : one));
}

/** Returns one sentence per reason, for all partitions that the reason stops. */
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
