import kafkajs, { type ISocketFactory, type Kafka, type logCreator } from 'kafkajs';
import Runner from 'kafkajs/src/consumer/runner.js';
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import type { Logger } from '../logging.ts';
import { type KafkaSecurity, kafkajsSecurity } from './kafka-security.ts';
import { createSocketFactory, kafkajsSeed } from './kafka-sockets.ts';

/** How the cluster is reached; the same for every client of one log. */
export interface KafkaConnection extends KafkaSecurity {
  /** `host:port` (IPv6 addresses in brackets), any of the cluster's brokers. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly logger: Logger;
}

/** Milliseconds for a TCP connection to a broker. */
export const CONNECTION_TIMEOUT_MS = 3_000;

/** Milliseconds until a request that is not a produce request counts as lost. */
export const REQUEST_TIMEOUT_MS = 10_000;

/**
 * A kafkajs client whose retries are few: what has to be retried for longer is retried by our own loops, which know
 * deadlines and can be closed. One client a consumer: kafkajs shares committed offsets between the consumers of one.
 */
export function createKafkaClient(
  connection: KafkaConnection,
  socketFactory: ISocketFactory = createSocketFactory(),
): Kafka {
  calmRequestQueue();
  endStoppedFetchers();
  return new kafkajs.Kafka({
    brokers: connection.brokers.map(kafkajsSeed),
    ...kafkajsSecurity(connection),
    clientId: connection.clientId,
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    retry: { retries: 2, initialRetryTime: 100, maxRetryTime: 1_000 },
    logLevel: kafkajs.logLevel.INFO,
    logCreator: kafkaLogCreator(connection.logger),
    socketFactory,
  });
}

/**
 * kafkajs's log lines, for debugging only: what it calls an error (a broker that is restarting) is what our loops retry
 * many times a minute, and they say it themselves once it matters. Only names that cannot hold a secret are taken over.
 */
export function kafkaLogCreator(logger: Logger): logCreator {
  return () =>
    ({ namespace, log }) => {
      const fields: Record<string, unknown> = { kafkajs: namespace };
      for (const name of LOGGED_NAMES) if (log[name] !== undefined) fields[name] = log[name];
      logger.debug(fields, log.message);
    };
}

const LOGGED_NAMES = [
  'broker',
  'clientId',
  'groupId',
  'memberId',
  'topic',
  'partition',
  'error',
  'retryCount',
];

/**
 * kafkajs re-arms the check of its request queue for ever, with a negative delay (kafkajs #1704): a timer every
 * millisecond for each connection that was ever used, and a TimeoutNegativeWarning on newer Nodes. The check is needed
 * only while a request waits.
 */
function calmRequestQueue(): void {
  RequestQueue.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const delayMs = Math.max(this.throttledUntil - Date.now(), REQUEST_QUEUE_CHECK_MS);
    this.throttleCheckTimeoutId = setTimeout(() => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    }, delayMs);
  };
}

const fetchWhileRunning = Runner.prototype.fetch;

/**
 * kafkajs makes its fetchers anew when brokers come or go. Where a consumer is stopped in that moment, the new ones never
 * hear of it: each asks a stopped consumer for records again and again, without ever giving up the turn of the event loop,
 * and the whole process stands still. So whoever asks a stopped consumer is stopped.
 */
export function endStoppedFetchers(): void {
  Runner.prototype.fetch = async function (this: Runner, nodeId: number): Promise<unknown[]> {
    if (this.running) return fetchWhileRunning.call(this, nodeId);
    // Not waited for: it ends when the fetcher that asks has its answer.
    void this.fetchManager.stop();
    return [];
  };
}

/** What kafkajs itself uses between two looks at a queue. */
const REQUEST_QUEUE_CHECK_MS = 10;
