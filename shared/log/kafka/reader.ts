import type Broker from 'kafkajs/src/broker/index.js';
import { AppError, errorMessage } from '../../errors.ts';
import type { LogRange, LogReader, LogRecord } from '../log.ts';
import { askBounds, boundsOf, NO_REPLICA, READ_UNCOMMITTED, requireBounds } from './bounds.ts';
import { type KafkaConnection, REQUEST_TIMEOUT_MS } from './client.ts';
import { createBrokerOpener, cut, seedAddresses } from './connect.ts';
import { toLogRecord } from './member.ts';
import { metadataOf } from './metadata.ts';

const PAGE_BYTES_MAX = 4 * 1_048_576;
/** A fetch of what is known to be there waits for nothing; this is only for brokers that are busy. */
const FETCH_WAIT_MS = 500;
const EMPTY_FETCHES_MAX = 5;

/**
 * Fetches straight from the leaders, below kafkajs's consumer, which would need a group: a group that only looked would
 * remain on the brokers, and show up in every lag tool.
 */
export function createKafkaReader(connection: KafkaConnection): LogReader {
  const openBroker = createBrokerOpener(connection, REQUEST_TIMEOUT_MS);
  const connected = new Map<string, Broker>();

  async function brokerAt(address: { readonly host: string; readonly port: number }): Promise<Broker> {
    const name = `${address.host}:${address.port}`;
    const broker = connected.get(name) ?? (await openBroker({ host: address.host, port: address.port }));
    connected.set(name, broker);
    if (!broker.isConnected()) await broker.connect();
    return broker;
  }

  async function anyBroker(): Promise<Broker> {
    let lastError: unknown;
    for (const address of seedAddresses(connection)) {
      try {
        return await brokerAt(address);
      } catch (error) {
        lastError = error;
      }
    }
    throw lastError;
  }

  async function leaderOf({ topic, partition }: LogRange): Promise<Broker> {
    const { brokers, topicMetadata } = await metadataOf(await anyBroker(), [topic]);
    const found = topicMetadata[0]?.partitionMetadata.find(({ partitionId }) => partitionId === partition);
    const address = brokers.find(({ nodeId }) => nodeId === found?.leader);
    if (address === undefined) throw new Error(`partition ${partition} of ${topic} has no leader`);
    return await brokerAt(address);
  }

  async function fetch(leader: Broker, range: LogRange, from: bigint): Promise<LogRecord[]> {
    const { responses } = await leader.fetch({
      replicaId: NO_REPLICA,
      isolationLevel: READ_UNCOMMITTED,
      maxWaitTime: FETCH_WAIT_MS,
      minBytes: 1,
      maxBytes: PAGE_BYTES_MAX,
      topics: [
        {
          topic: range.topic,
          partitions: [
            { partition: range.partition, fetchOffset: from.toString(), maxBytes: PAGE_BYTES_MAX },
          ],
        },
      ],
    });
    const messages = responses[0]?.partitions[0]?.messages ?? [];
    // A broker hands out whole batches, also what lies before the offset asked for.
    return messages.map(toLogRecord).filter(({ offset }) => offset >= from);
  }

  async function* pages(range: LogRange): AsyncGenerator<readonly LogRecord[]> {
    const asked = (await askBounds(connection, [range.topic])).get(range.topic)?.get(range.partition);
    const earliest = asked === undefined ? 0n : boundsOf(asked).earliest;
    let from = range.from > earliest ? range.from : earliest;
    let empty = 0;
    while (from < range.to && empty < EMPTY_FETCHES_MAX) {
      const records = await asking(async () => fetch(await leaderOf(range), range, from));
      empty = records.length === 0 ? empty + 1 : 0;
      from = (records.at(-1)?.offset ?? from - 1n) + 1n;
      const wanted = records.filter(({ offset }) => offset < range.to);
      if (wanted.length > 0) yield wanted;
    }
    // What is read decides what is listed, replayed or compared: a part must not pass for the whole.
    if (from < range.to) throw unfinished(range, from);
  }

  return {
    bounds: (topics) => requireBounds(connection, topics),
    pages,
    async close() {
      for (const broker of connected.values()) cut(broker);
    },
  };
}

/** Brokers answer so to a client that they throttle; a new leader may not know yet that it may hand out the end. */
function unfinished({ topic, partition, to }: LogRange, from: bigint): AppError {
  return new AppError(
    'LOG_UNAVAILABLE',
    `Kafka handed out nothing of ${topic}, partition ${partition}, from offset ${from} on, ${EMPTY_FETCHES_MAX} times in a row, though it should go to ${to}: it may throttle this client; try again`,
    { retryable: true },
  );
}

async function asking<T>(question: () => Promise<T>): Promise<T> {
  try {
    return await question();
  } catch (error) {
    throw new AppError('LOG_UNAVAILABLE', `Kafka does not answer (${errorMessage(error)})`, {
      retryable: true,
      cause: error,
    });
  }
}
