import kafkajs, { type Admin, type ITopicConfig } from 'kafkajs';
import { sleep } from '../../async.ts';
import { AppError, errorMessage } from '../../errors.ts';
import type { TopicSpec } from '../log.ts';
import { isNotAllowed } from './problem.ts';
import { BATCH_BYTES_MAX, COMPRESSION, inSyncMinOf } from './topic-check.ts';

const LEADERS_TIMEOUT_MS = 30_000;
const LEADERS_POLL_MS = 100;

/**
 * Creates missing topics and waits until each of their partitions has a leader. Leaves existing
 * topics unchanged. Throws AppError `TOPIC_REFUSED` (not retryable) if Kafka refuses to create one.
 * Throws `LOG_UNAVAILABLE` (retryable) if no leaders are elected in time.
 */
export async function createTopics(admin: Admin, specs: readonly TopicSpec[]): Promise<string[]> {
  if (specs.length === 0) return [];
  const existing = new Set(await admin.listTopics());
  const created: string[] = [];
  for (const spec of specs) {
    if (!existing.has(spec.topic) && (await createTopic(admin, spec))) created.push(spec.topic);
  }
  await leadersElected(
    admin,
    specs.map((spec) => spec.topic),
  );
  return created;
}

/** Creates a topic. Returns false if another process created it first. */
async function createTopic(admin: Admin, spec: TopicSpec): Promise<boolean> {
  try {
    // kafkajs may throw with `waitForLeaders` although it created the topic, so leadersElected
    // waits instead.
    return await admin.createTopics({ waitForLeaders: false, topics: [topicConfig(spec)] });
  } catch (error) {
    if (!(error instanceof kafkajs.KafkaJSAggregateError) || isNotAllowed(error)) throw error;
    const reason = error.errors.map(errorMessage).join('; ');
    throw new AppError(
      'TOPIC_REFUSED',
      `Kafka did not create ${spec.topic} with ${spec.replicas} replicas: ${reason}`,
      { cause: error },
    );
  }
}

function topicConfig(spec: TopicSpec): ITopicConfig {
  const config: Record<string, string> = {
    'min.insync.replicas': String(inSyncMinOf(spec.replicas)),
    'unclean.leader.election.enable': 'false',
    'max.message.bytes': String(BATCH_BYTES_MAX),
    // Retention follows the broker's clock, not the producer's.
    'message.timestamp.type': 'LogAppendTime',
    'retention.ms': String(spec.retentionMs),
    // Overrides the brokers' defaults: records are deleted by age only.
    'retention.bytes': '-1',
    'cleanup.policy': 'delete',
    'compression.type': COMPRESSION,
  };
  if (spec.segmentMs !== undefined) config['segment.ms'] = String(spec.segmentMs);
  return {
    topic: spec.topic,
    numPartitions: spec.partitions,
    replicationFactor: spec.replicas,
    configEntries: Object.entries(config).map(([name, value]) => ({ name, value })),
  };
}

/**
 * Waits until all partitions have a leader. For a moment, the metadata of a new topic is an error
 * or has partitions without a leader.
 */
async function leadersElected(admin: Admin, topics: readonly string[]): Promise<void> {
  const giveUpAtMs = performance.now() + LEADERS_TIMEOUT_MS;
  let lastError: unknown;
  while (performance.now() < giveUpAtMs) {
    try {
      const metadata = await admin.fetchTopicMetadata({ topics: [...topics] });
      const partitions = metadata.topics.flatMap((topic) => topic.partitions);
      if (partitions.every(({ leader }) => leader >= 0)) return;
    } catch (error) {
      lastError = error;
    }
    await sleep(LEADERS_POLL_MS);
  }
  throw new AppError('LOG_UNAVAILABLE', `not every partition of ${topics.join(', ')} has a leader`, {
    retryable: true,
    cause: lastError,
  });
}
