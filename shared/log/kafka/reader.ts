import type Broker from 'kafkajs/src/broker/index.js';
import { AppError, errorMessage } from '../../errors.ts';
import type { LogRange, LogReader, LogRecord, PartitionBounds } from '../log.ts';
import { boundsOf, fetchBounds, requireBounds } from './bounds.ts';
import { type KafkaConnection, REQUEST_TIMEOUT_MS } from './client.ts';
import { createBrokerOpener, cut, type OpenBroker, seedAddresses } from './connect.ts';
import { toLogRecord } from './log-record.ts';
import { NO_REPLICA, READ_UNCOMMITTED } from './protocol/list-offsets.ts';
import { metadataOf } from './protocol/metadata.ts';
import type { Address } from './sockets.ts';

const PAGE_BYTES_MAX = 4 * 1_048_576;
/** Maximum milliseconds for which a broker holds a fetch while there are no records to return. */
const FETCH_WAIT_MS = 500;
const EMPTY_FETCHES_MAX = 5;

/**
 * Fetches directly from the leaders, without a kafkajs consumer, which would need a group. A group
 * that only reads once would remain on the brokers, and appear in every lag tool.
 */
export class KafkaReader implements LogReader {
  private readonly connection: KafkaConnection;
  private readonly openBroker: OpenBroker;
  /** Connected brokers by `host:port`. */
  private readonly connected = new Map<string, Broker>();

  constructor(connection: KafkaConnection) {
    this.connection = connection;
    this.openBroker = createBrokerOpener(connection, REQUEST_TIMEOUT_MS);
  }

  bounds(topics: readonly string[]): Promise<Map<string, Map<number, PartitionBounds>>> {
    return requireBounds(this.connection, topics);
  }

  async *pages(range: LogRange): AsyncGenerator<readonly LogRecord[]> {
    const { topic, partition, to } = range;
    const asked = (await fetchBounds(this.connection, [topic])).get(topic)?.get(partition);
    const earliest = asked === undefined ? 0n : boundsOf(asked).earliest;
    let from = range.from > earliest ? range.from : earliest;
    let emptyFetches = 0;
    while (from < to && emptyFetches < EMPTY_FETCHES_MAX) {
      const records = await this.fetch(range, from);
      emptyFetches = records.length === 0 ? emptyFetches + 1 : 0;
      from = (records.at(-1)?.offset ?? from - 1n) + 1n;
      const wanted = records.filter(({ offset }) => offset < to);
      if (wanted.length > 0) yield wanted;
    }
    // Callers list, replay or compare the records: a missing range must be an error.
    if (from < to) throw unfinished(range, from);
  }

  async close(): Promise<void> {
    for (const broker of this.connected.values()) cut(broker);
  }

  private async fetch({ topic, partition }: LogRange, from: bigint): Promise<LogRecord[]> {
    try {
      const leader = await this.leaderOf(topic, partition);
      const wanted = { partition, fetchOffset: from.toString(), maxBytes: PAGE_BYTES_MAX };
      const { responses } = await leader.fetch({
        replicaId: NO_REPLICA,
        isolationLevel: READ_UNCOMMITTED,
        maxWaitTime: FETCH_WAIT_MS,
        minBytes: 1,
        maxBytes: PAGE_BYTES_MAX,
        topics: [{ topic, partitions: [wanted] }],
      });
      const messages = responses[0]?.partitions[0]?.messages ?? [];
      // A broker returns whole batches, which may begin before the requested offset.
      return messages.map(toLogRecord).filter(({ offset }) => offset >= from);
    } catch (error) {
      throw new AppError('LOG_UNAVAILABLE', `Kafka does not answer (${errorMessage(error)})`, {
        retryable: true,
        cause: error,
      });
    }
  }

  private async leaderOf(topic: string, partition: number): Promise<Broker> {
    const { brokers, topicMetadata } = await metadataOf(await this.anyBroker(), [topic]);
    const found = topicMetadata[0]?.partitionMetadata.find(({ partitionId }) => partitionId === partition);
    const address = brokers.find(({ nodeId }) => nodeId === found?.leader);
    if (address === undefined) throw new Error(`partition ${partition} of ${topic} has no leader`);
    return await this.brokerAt(address);
  }

  private async anyBroker(): Promise<Broker> {
    let lastError: unknown;
    for (const address of seedAddresses(this.connection)) {
      try {
        return await this.brokerAt(address);
      } catch (error) {
        lastError = error;
      }
    }
    throw lastError;
  }

  private async brokerAt({ host, port }: Address): Promise<Broker> {
    const name = `${host}:${port}`;
    const broker = this.connected.get(name) ?? (await this.openBroker({ host, port }));
    this.connected.set(name, broker);
    if (!broker.isConnected()) await broker.connect();
    return broker;
  }
}

/**
 * Returns the error after repeated empty fetches. Brokers send an empty response to a client that
 * they throttle. A new leader may not know yet that it may return the newest records.
 */
function unfinished({ topic, partition, to }: LogRange, from: bigint): AppError {
  return new AppError(
    'LOG_UNAVAILABLE',
    `Kafka returned no records of ${topic}, partition ${partition}, from offset ${from} to ${to} in ${EMPTY_FETCHES_MAX} consecutive fetches: it may throttle this client; retry`,
    { retryable: true },
  );
}
