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

/** Timeout in milliseconds for a TCP connection to a broker. */
export const CONNECTION_TIMEOUT_MS = 3_000;

/** Timeout in milliseconds of a request, except produce requests. */
export const REQUEST_TIMEOUT_MS = 10_000;

/**
 * Returns a kafkajs client with few retries, because the loops in this folder retry for longer,
 * with deadlines, and can be closed. Each consumer needs its own client, because kafkajs shares
 * committed offsets between the consumers of a client.
 */
export function createKafkaClient(
  connection: KafkaConnection,
  socketFactory: ISocketFactory = createSocketFactory(),
): Kafka {
  patchKafkajs();
  return new kafkajs.Kafka({
    // In random order: kafkajs starts with the first broker and continues with it even if it hangs.
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
 * Returns a log creator that logs the lines of kafkajs at level debug. Errors such as a restarting
 * broker are retried many times per minute, and are reported by this folder's loops if they
 * persist. Only fields that cannot contain a secret are kept.
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
