import type { Clock } from '../../clock.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import type { EventLog } from '../log.ts';
import { EmbeddedConsumer } from './consumer.ts';
import { createBusyMeter } from './gathering.ts';
import { EmbeddedPublisher } from './publisher.ts';
import { createEmbeddedReader, queryLog } from './reader.ts';
import { RecentRecords } from './recent-records.ts';
import { startRetention } from './retention.ts';
import { createLogTopic, describeLogTopics, readBounds } from './sql/log-partitions.ts';
import { BoundsWatch } from './watch.ts';

export interface EmbeddedLogOptions {
  /**
   * The pool of the database that holds the log. Publishers and consumers use a connection for one
   * statement at a time.
   */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Maximum milliseconds until records of other processes are seen. Default 500. */
  readonly pollIntervalMs?: number;
  /** Milliseconds between two searches for records that are too old to keep. Default 60,000. */
  readonly retentionIntervalMs?: number;
}

/** A poll reads all bounds: at 100 ms, the polls were half of the CPU of an idle process. */
const POLL_INTERVAL_MS = 500;
const RETENTION_INTERVAL_MS = 60_000;

/**
 * Opens the event log on Postgres, which replaces Kafka on a single machine. One process, the owner
 * of the data directory, consumes the log. Other processes (commands) only append and read. The
 * retention is stored with each topic.
 */
export function createEmbeddedLog(options: EmbeddedLogOptions): EventLog {
  const { pool, clock, logger } = options;
  const watch = new BoundsWatch({ pool, logger, pollIntervalMs: options.pollIntervalMs ?? POLL_INTERVAL_MS });
  const recent = new RecentRecords();
  const isBusy = createBusyMeter();
  /**
   * The last consumer of each topic and group. A closed consumer is kept, because records that it
   * has not handled must not be deleted.
   */
  const consumers = new Map<string, { readonly topic: string; readonly consumer: EmbeddedConsumer }>();
  let retention: { close(): Promise<void> } | undefined;

  function handledTo(topic: string, partition: number): bigint | undefined {
    let lowest: bigint | undefined;
    for (const entry of consumers.values()) {
      if (entry.topic !== topic) continue;
      const handled = entry.consumer.handledTo(partition) ?? 0n;
      if (lowest === undefined || handled < lowest) lowest = handled;
    }
    return lowest;
  }

  return {
    createPublisher: (publisher) =>
      new EmbeddedPublisher({ ...publisher, pool, clock, logger, watch, recent }),

    createConsumer(consumerOptions) {
      const { topic, group } = consumerOptions;
      const consumer = new EmbeddedConsumer(consumerOptions, { pool, logger, watch, recent, isBusy });
      consumers.set(`${group} ${topic}`, { topic, consumer });
      // Started by the first consumer: commands that only read or append should not delete records.
      const intervalMs = options.retentionIntervalMs ?? RETENTION_INTERVAL_MS;
      retention ??= startRetention({ pool, clock, logger, intervalMs, handledTo });
      return consumer;
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
      for (const { topic } of await queryLog(() => readBounds(pool, topics))) {
        counts.set(topic, (counts.get(topic) ?? 0) + 1);
      }
      return counts;
    },

    groupMembers: async () => undefined,

    describeTopics: (topics) => queryLog(() => describeLogTopics(pool, topics)),

    async close() {
      await Promise.all([watch.close(), retention?.close()]);
    },
  };
}
