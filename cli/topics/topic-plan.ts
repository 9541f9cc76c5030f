import { type TopicShortfall, topicShortfalls } from '../../shared/log/kafka/topic-check.ts';
import type { EventLog, TopicDescription, TopicSpec } from '../../shared/log/log.ts';

/** The plan of `topics create` for one topic. */
export interface PlannedTopic {
  readonly topic: string;
  readonly action: 'create' | 'keep';
  readonly partitions: number;
  /** Undefined if the log has no replicas. */
  readonly replicas: number | undefined;
  readonly retentionMs: number;
  /** The requested number, if an existing topic has another number of partitions. */
  readonly partitionsWanted?: number;
}

export interface TopicPlan {
  readonly topics: readonly PlannedTopic[];
  /** Problems of the topics once the missing ones are created. */
  readonly warnings: readonly TopicShortfall[];
}

/**
 * Compares the requested topics with the existing ones, which are not changed. `expected` are the
 * recommended values.
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
