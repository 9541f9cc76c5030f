import type { Clock } from '../../clock.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import type { ConsumerOptions, EventLog, LogConsumer } from '../log.ts';
import { startConsumer } from './consumer.ts';
import { createEmbeddedPublisher } from './publisher.ts';
import { askLog, createEmbeddedReader } from './reader.ts';
import { startRetention } from './retention.ts';
import { readBounds } from './sql/bounds.ts';
import { createLogTopic } from './sql/create-topic.ts';
import { describeLogTopics } from './sql/describe.ts';
import { createBoundsWatch } from './watch.ts';

/** Options of {@link createEmbeddedLog}. */
export interface EmbeddedLogOptions {
  /** On the database that holds the log. Publishers and consumers borrow connections of it for a statement at a time. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Names this process among the members of consumer groups. A process that starts again under the same name takes its
   * partitions back at once; two live processes must never share one.
   */
  readonly memberId: string;
  /** Milliseconds after which records of other processes are seen at the latest. Default 100. */
  readonly pollIntervalMs?: number;
  /** Milliseconds after which a member that froze or died loses its partitions. Default 10,000. */
  readonly leaseMs?: number;
  /** Milliseconds between two looks for records that are too old to keep. Default 60,000. */
  readonly retentionIntervalMs?: number;
}

/** The event log on Postgres: what Kafka is elsewhere, for a single machine. How long records stay belongs to each topic. */
export function createEmbeddedLog(options: EmbeddedLogOptions): EventLog {
  const { pool, clock, logger } = options;
  const watch = createBoundsWatch({ pool, logger, pollIntervalMs: options.pollIntervalMs ?? 100 });
  const memberNames = createMemberNames(options.memberId);
  let retention: { close(): Promise<void> } | undefined;

  return {
    createPublisher: (publisher) => createEmbeddedPublisher({ ...publisher, pool, clock, logger, watch }),

    createConsumer(consumer) {
      // Only who reads cleans up: a command that looks at the log has no time for it.
      retention ??= startRetention({
        pool,
        clock,
        logger,
        intervalMs: options.retentionIntervalMs ?? 60_000,
      });
      const name = memberNames.take(consumer);
      const started = startConsumer(consumer, {
        pool,
        clock,
        logger,
        watch,
        member: name.member,
        leaseMs: options.leaseMs ?? 10_000,
      });
      return closingWith(started, name.giveBack);
    },

    createReader: () => createEmbeddedReader(pool),

    async createTopics(specs) {
      const created: string[] = [];
      for (const spec of specs) {
        if (await createLogTopic(pool, spec)) created.push(spec.topic);
      }
      return created;
    },

    async partitionCounts(topics) {
      const counts = new Map<string, number>();
      for (const { topic } of await askLog(() => readBounds(pool, topics)))
        counts.set(topic, (counts.get(topic) ?? 0) + 1);
      return counts;
    },

    describeTopics: (topics) => askLog(() => describeLogTopics(pool, topics)),

    async close() {
      await Promise.all([watch.close(), retention?.close()]);
    },
  };
}

function closingWith(consumer: LogConsumer, afterwards: () => void): LogConsumer {
  return {
    status: () => consumer.status(),
    askStart: (partition) => consumer.askStart(partition),
    async close() {
      await consumer.close();
      afterwards();
    },
  };
}

/** Gives the consumers of one process names that are the same after a restart, and differ within a group. */
function createMemberNames(memberId: string) {
  const taken = new Set<string>();
  return {
    take({ group, topic }: ConsumerOptions): { member: string; giveBack(): void } {
      let number = 1;
      while (taken.has(`${group} ${topic} ${number}`)) number += 1;
      const name = `${group} ${topic} ${number}`;
      taken.add(name);
      return { member: `${memberId}.${number}`, giveBack: () => taken.delete(name) };
    },
  };
}
