import type { Admin } from 'kafkajs';
import { singleFlight } from '../../async.ts';
import { AppError } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { EventLog, PartitionBounds } from '../log.ts';
import { boundsOf, type FetchedBounds, fetchBounds, findTopics } from './bounds.ts';
import { createKafkaBoundsWatch } from './bounds-watch.ts';
import { KafkaBrokers } from './brokers.ts';
import { createKafkaClient, type KafkaConnection } from './client.ts';
import { KafkaConsumer } from './consumer.ts';
import { describeTopics } from './describe.ts';
import { groupMembers } from './group-members.ts';
import type { MemberTimes } from './member.ts';
import { kafkaError, TOPIC_MISSING_TEXT } from './problem.ts';
import { KafkaPublisher } from './publisher.ts';
import { KafkaReader } from './reader.ts';
import type { KafkaSecurity } from './security.ts';
import { createTopics } from './topics.ts';

export interface KafkaLogOptions extends KafkaSecurity {
  /** `host:port`, any of the cluster's brokers. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly logger: Logger;
  /** Overrides of {@link DEFAULT_TIMES}. */
  readonly consumerTimes?: Partial<MemberTimes>;
}

const DEFAULT_TIMES: MemberTimes = {
  sessionTimeoutMs: 30_000,
  rebalanceTimeoutMs: 60_000,
  heartbeatIntervalMs: 3_000,
  fetchWaitMs: 500,
};

/** Minimum timeout of a produce request. The timeout is otherwise the deadline of its callers. */
const PRODUCE_TIMEOUT_MIN_MS = 1_000;

/** Returns the event log on Apache Kafka. Connects at its first use. */
export function createKafkaLog(options: KafkaLogOptions): EventLog {
  const connection: KafkaConnection = options;
  const times = { ...DEFAULT_TIMES, ...options.consumerTimes };
  const watch = createKafkaBoundsWatch((topics) => fetchBounds(connection, topics));
  /** The readers of one assignment request bounds at the same time, and share one request. */
  const topicBounds = singleFlight(async (topic: string): Promise<FetchedBounds> => {
    const bounds = (await fetchBounds(connection, [topic])).get(topic);
    if (bounds === undefined) throw new AppError('LOG_UNAVAILABLE', TOPIC_MISSING_TEXT, { retryable: true });
    return bounds;
  });

  async function bounds(topic: string, partition: number): Promise<PartitionBounds> {
    const found = (await topicBounds(topic)).get(partition);
    if (found === undefined) {
      throw new AppError('LOG_UNAVAILABLE', `${topic} has no partition ${partition}`, { retryable: true });
    }
    return boundsOf(found);
  }

  return {
    createPublisher(publisherOptions) {
      const requestTimeoutMs = Math.max(publisherOptions.deadlineMs, PRODUCE_TIMEOUT_MIN_MS);
      const transport = new KafkaBrokers(connection, requestTimeoutMs);
      return new KafkaPublisher(transport, publisherOptions, connection.logger);
    },
    createConsumer: (consumerOptions) =>
      new KafkaConsumer(consumerOptions, { connection, times, bounds, watch }),
    createReader: () => new KafkaReader(connection),
    createTopics: (specs) => withAdmin(connection, (admin) => createTopics(admin, specs)),
    async partitionCounts(topics) {
      const found = await findTopics(connection, topics);
      return new Map(found.map(({ topic, partitionMetadata }) => [topic, partitionMetadata.length]));
    },
    describeTopics: (topics) => withAdmin(connection, (admin) => describeTopics(admin, topics)),
    groupMembers: (groups) => withAdmin(connection, (admin) => groupMembers(admin, groups)),
    async close() {
      await Promise.allSettled([watch.close(), topicBounds.idle()]);
    },
  };
}

/**
 * Opens a connection for one request. Requests are rare, and a permanent connection would have to
 * be monitored and reconnected.
 */
async function withAdmin<T>(connection: KafkaConnection, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = createKafkaClient(connection).admin();
  try {
    await admin.connect();
    return await work(admin);
  } catch (error) {
    throw kafkaError(error, connection);
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}
