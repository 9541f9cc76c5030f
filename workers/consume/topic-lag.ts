import type { LogConsumer } from '../../shared/log/log.ts';
import type { PartitionConsumer } from './partition-consumer.ts';

/** The partitions of a topic that this process has, and how far it lags. */
export interface TopicLag {
  readonly reading: number;
  /** Partitions that are not read, or whose records cannot be stored now. */
  readonly stalled: number;
  /**
   * The records that are not stored; undefined if none of the positions is known, or the consumer has
   * not joined its group.
   */
  readonly backlog: { readonly records: number; readonly oldestSeconds: number } | undefined;
}

type Partition = Pick<PartitionConsumer<unknown>, 'status' | 'slowBecause' | 'nextOffset'>;

/** Returns the lag of a topic as known in memory, without a request to the log or the database. */
export function topicLag(
  consumer: Pick<LogConsumer, 'status' | 'backlog'>,
  partitions: ReadonlyMap<number, Partition>,
  nowMs: number,
): TopicLag {
  const { joined, partitions: assigned, stopped, problem } = consumer.status();
  let stalled = 0;
  let known = 0;
  let records = 0n;
  let oldestMs = nowMs;
  for (const number of assigned) {
    const partition = partitions.get(number);
    if (problem !== undefined || stopped.has(number) || isStalled(partition, nowMs)) stalled += 1;
    const backlog = partition && consumer.backlog(number, partition.nextOffset);
    if (!backlog) continue;
    known += 1;
    records += backlog.records;
    oldestMs = Math.min(oldestMs, backlog.oldestMs ?? nowMs);
  }
  const isKnown = joined && (known > 0 || assigned.length === 0);
  return {
    reading: assigned.length - stalled,
    stalled,
    backlog: isKnown ? { records: Number(records), oldestSeconds: (nowMs - oldestMs) / 1000 } : undefined,
  };
}

function isStalled(partition: Partition | undefined, nowMs: number): boolean {
  return partition?.status.fault !== undefined || partition?.slowBecause(nowMs) !== undefined;
}
