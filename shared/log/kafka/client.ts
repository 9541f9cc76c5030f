import kafkajs, { type ISocketFactory, type Kafka, type logCreator } from 'kafkajs';
import type { Logger } from '../../logging.ts';
import { patchKafkajs } from './kafkajs-patches/patch-kafkajs.ts';
import { type KafkaSecurity, kafkajsSecurity } from './security.ts';
import { createSocketFactory, kafkajsSeed, shuffled } from './sockets.ts';

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
  patchKafkajs();
  return new kafkajs.Kafka({
    // In random order: kafkajs begins with the first one, and stays with it where it hangs.
    brokers: shuffled(connection.brokers).map(kafkajsSeed),
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
