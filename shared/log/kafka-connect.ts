import kafkajs from 'kafkajs';
import Broker from 'kafkajs/src/broker/index.js';
import connectionPoolBuilder from 'kafkajs/src/cluster/connectionPoolBuilder.js';
import loggers from 'kafkajs/src/loggers/index.js';
import { AppError } from '../errors.ts';
import { CONNECTION_TIMEOUT_MS, type KafkaConnection, kafkaLogCreator } from './kafka-client.ts';
import { kafkajsSecurity } from './kafka-security.ts';
import { addressOf, createSocketFactory } from './kafka-sockets.ts';

/** Where a broker listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Makes kafkajs's broker objects, which connect when they are told to. */
export type OpenBroker = (address: Address, nodeId?: number) => Promise<Broker>;

export function createBrokerOpener(connection: KafkaConnection, requestTimeoutMs: number): OpenBroker {
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

/** The brokers of the settings, in random order, so that one that hangs is not everybody's first. */
export function seedAddresses(connection: KafkaConnection): Address[] {
  return shuffled(connection.brokers).map(addressOf);
}

/** Closes a broker's connections. With an error, so that kafkajs fails what is under way at once instead of at its timeout. */
export function cut(broker: Broker): void {
  for (const { socket } of broker.connectionPool.pool) socket?.destroy(new Error('connection dropped'));
}

/** Rejects with a retryable AppError `LOG_UNAVAILABLE` when the work takes longer. */
export async function within<T>(timeoutMs: number, work: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new AppError('LOG_UNAVAILABLE', `no answer within ${timeoutMs} ms`, { retryable: true })),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([work(), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

export function shuffled<T>(items: readonly T[]): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    [copy[last], copy[other]] = [copy[other]!, copy[last]!];
  }
  return copy;
}
