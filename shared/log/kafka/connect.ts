import kafkajs from 'kafkajs';
import Broker from 'kafkajs/src/broker/index.js';
import connectionPoolBuilder from 'kafkajs/src/cluster/connectionPoolBuilder.js';
import loggers from 'kafkajs/src/loggers/index.js';
import { withDeadline } from '../../async.ts';
import { AppError } from '../../errors.ts';
import { CONNECTION_TIMEOUT_MS, type KafkaConnection, kafkaLogCreator } from './client.ts';
import { patchKafkajs } from './kafkajs-patches/patch-kafkajs.ts';
import { type MetadataResponse, metadataOf } from './protocol/metadata.ts';
import { kafkajsSecurity } from './security.ts';
import { type Address, addressOf, createSocketFactory, shuffled } from './sockets.ts';

/** Creates a kafkajs broker object, which connects when its `connect` is called. */
export type OpenBroker = (address: Address, nodeId?: number) => Promise<Broker>;

export function createBrokerOpener(connection: KafkaConnection, requestTimeoutMs: number): OpenBroker {
  patchKafkajs();
  const logger = loggers.createLogger({
    level: kafkajs.logLevel.INFO,
    logCreator: kafkaLogCreator(connection.logger),
  });
  const pools = connectionPoolBuilder({
    brokers: [...connection.brokers],
    ...kafkajsSecurity(connection),
    clientId: connection.clientId,
    socketFactory: createSocketFactory(),
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    requestTimeout: requestTimeoutMs,
    enforceRequestTimeout: true,
    maxInFlightRequests: null,
    logger,
  });
  return async (address, nodeId) =>
    new Broker({
      connectionPool: await pools.build(address),
      logger,
      nodeId: nodeId ?? null,
      allowAutoTopicCreation: false,
    });
}

/**
 * Returns the configured brokers in random order, so that not every client starts with a broker
 * that hangs.
 */
export function seedAddresses(connection: KafkaConnection): Address[] {
  return shuffled(connection.brokers).map(addressOf);
}

/**
 * Closes a broker's connections with an error, so that kafkajs fails requests in flight immediately
 * instead of at their timeout.
 */
export function cut(broker: Broker): void {
  for (const { socket } of broker.connectionPool.pool) socket?.destroy(new Error('connection dropped'));
}

/** Milliseconds until the next broker is tried. */
const METADATA_TIMEOUT_MS = 2_000;

/**
 * Requests the metadata of topics from one broker after another, until one answers. Uses a new
 * connection per broker. Brokers answer the requests of a connection in order, so the request could
 * otherwise wait for a produce request. Rejects with the error of the last broker.
 */
export async function requestMetadata(
  openBroker: OpenBroker,
  addresses: readonly Address[],
  topics: readonly string[],
): Promise<MetadataResponse> {
  let lastError: unknown = new AppError('LOG_UNAVAILABLE', 'no broker is known', { retryable: true });
  for (const address of addresses) {
    try {
      return await ask(openBroker, address, topics);
    } catch (error) {
      lastError = error;
    }
  }
  throw lastError;
}

async function ask(
  openBroker: OpenBroker,
  address: Address,
  topics: readonly string[],
): Promise<MetadataResponse> {
  const broker = await openBroker(address);
  try {
    const answer = broker.connect().then(() => metadataOf(broker, topics));
    return await withDeadline(answer, METADATA_TIMEOUT_MS);
  } finally {
    cut(broker);
  }
}
