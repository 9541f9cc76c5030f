import kafkajs, { type ISocketFactory, type Kafka, type logCreator } from 'kafkajs';
import type { Logger } from '../../logging.ts';
import { patchKafkajs } from './kafkajs-patches/patch-kafkajs.ts';
import { type KafkaSecurity, kafkajsSecurity } from './security.ts';
import { createSocketFactory, kafkajsSeed, shuffled } from './sockets.ts';

/** The address and security of a cluster; shared by all clients of one log. */
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
 * Returns a kafkajs client with few retries: our own loops retry for longer, with deadlines and a
 * way to close them. Each consumer needs its own client, because kafkajs shares committed offsets
 * between the consumers of one.
 */
export function createKafkaClient(
  connection: KafkaConnection,
  socketFactory: ISocketFactory = createSocketFactory(),
): Kafka {
  patchKafkajs();
  return new kafkajs.Kafka({
    // In random order: kafkajs starts with the first broker, and stays with it even if it hangs.
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
 * Logs kafkajs's lines at level debug: its errors, such as a restarting broker, are retried by our
 * loops many times per minute, and reported by them when they matter. Only fields that cannot hold
 * a secret are kept.
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
