import type { PartitionLag } from './partitions.ts';

/** The lag of all partitions of a topic. */
export interface TopicLag {
  readonly topic: string;
  readonly partitions: number;
  /** Number of partitions with records that are not stored. */
  readonly behind: number;
  /** Number of partitions that are stalled, because the log does not match the stored position. */
  readonly stalled: number;
  readonly lag: number;
  /** Age of the oldest record that is not stored. */
  readonly oldestSeconds: number | null;
}

/** Sums the lag of partitions by topic, in the order of the topics. */
export function sumByTopic(partitions: readonly PartitionLag[]): TopicLag[] {
  const topics = [...new Set(partitions.map(({ topic }) => topic))];
  return topics.map((topic) => {
    const own = partitions.filter((one) => one.topic === topic);
    const ages = own.flatMap(({ oldestSeconds }) => oldestSeconds ?? []);
    return {
      topic,
      partitions: own.length,
      behind: own.filter(({ lag }) => lag > 0).length,
      stalled: own.filter(({ problem }) => problem !== null).length,
      lag: own.reduce((sum, { lag }) => sum + lag, 0),
      oldestSeconds: ages.length === 0 ? null : Math.max(...ages),
    };
  });
}
