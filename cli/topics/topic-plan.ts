import { type TopicShortfall, topicShortfalls } from '../../shared/log/kafka/topic-check.ts';
import type { EventLog, TopicDescription, TopicSpec } from '../../shared/log/log.ts';

/** What `topics create` would do about one topic. */
export interface PlannedTopic {
  readonly topic: string;
  readonly action: 'create' | 'keep';
  readonly partitions: number;
  /** Undefined where the log keeps no copies of its own. */
  readonly replicas: number | undefined;
  readonly retentionMs: number;
  /** Asked for, but fixed at another number. */
  readonly partitionsWanted?: number;
}

export interface TopicPlan {
  readonly topics: readonly PlannedTopic[];
  /** What falls short once the missing topics are made: of those that exist, and of what was asked for. */
  readonly warnings: readonly TopicShortfall[];
}

/**
 * Compares the topics that are wanted with those that exist, which stay as they are. `expected` is what they should be,
 * whatever was asked for.
 */
export async function planTopics(
  log: Pick<EventLog, 'describeTopics'>,
  specs: readonly TopicSpec[],
  expected: readonly TopicSpec[],
  created: (spec: TopicSpec) => TopicDescription,
): Promise<TopicPlan> {
  const found = await log.describeTopics(specs.map(({ topic }) => topic));
  const afterwards = new Map(specs.map((spec) => [spec.topic, found.get(spec.topic) ?? created(spec)]));
  return {
    topics: specs.map((spec) => {
      const { partitions, retentionMs, replication } = afterwards.get(spec.topic)!;
      return {
        topic: spec.topic,
        action: found.has(spec.topic) ? 'keep' : 'create',
        partitions,
        replicas: replication?.replicas,
        retentionMs,
        ...(partitions !== spec.partitions && { partitionsWanted: spec.partitions }),
      };
    }),
    warnings: topicShortfalls(expected, afterwards),
  };
}
