import type Broker from 'kafkajs/src/broker/index.js';
import { AppError, errorMessage } from '../../errors.ts';
import type { KafkaConnection } from './client.ts';
import { type ReportedCluster, reportCluster } from './cluster-metrics.ts';
import { createBrokerOpener, cut, type OpenBroker, requestMetadata, seedAddresses } from './connect.ts';
import { LOG_ACCESS_REFUSED, refusalOf } from './problem.ts';
import type { MetadataResponse } from './protocol/metadata.ts';
import { type ProduceAnswer, type ProduceBatch, sendProduceRequest } from './protocol/produce.ts';
import { type Address, shuffled } from './sockets.ts';
import type { ProduceTransport } from './transport.ts';

/**
 * Sends produce requests directly to the leaders, with the connections of kafkajs but without its
 * producer. That producer has four faults:
 * - It remembers acknowledgements per broker across retries, and so resolves with records that were
 * never written (kafkajs #1303).
 * - It discards the whole response if one partition of it failed.
 * - One partition without a leader stops all others.
 * - It does not report whether a failed request was ever sent.
 */
export class KafkaBrokers implements ProduceTransport, ReportedCluster {
  private readonly connection: KafkaConnection;
  /**
   * Timeout in milliseconds both for the leader to collect acknowledgements and for this process to
   * wait for its response.
   */
  private readonly requestTimeoutMs: number;
  private readonly openBroker: OpenBroker;
  /** Node ids by {@link partitionName}. */
  private readonly leaders = new Map<string, number>();
  private readonly addresses = new Map<number, Address>();
  private readonly connected = new Map<number, Broker>();
  /** The topics of the last refresh. */
  private topics: readonly string[] = [];
  private readonly endReport: () => void;
  private isClosed = false;

  constructor(connection: KafkaConnection, requestTimeoutMs: number) {
    this.connection = connection;
    this.requestTimeoutMs = requestTimeoutMs;
    this.openBroker = createBrokerOpener(connection, requestTimeoutMs);
    this.endReport = reportCluster(this);
  }

  leaderOf(topic: string, partition: number): number | undefined {
    return this.leaders.get(partitionName(topic, partition));
  }

  forget(topic: string, partition: number): void {
    this.leaders.delete(partitionName(topic, partition));
  }

  async produce(leader: number, batches: readonly ProduceBatch[]): Promise<ProduceAnswer[]> {
    let sent = false;
    const options = {
      timeoutMs: this.requestTimeoutMs,
      onSent: () => {
        sent = true;
      },
    };
    try {
      // Not awaited if connected, so that the request is written before other work.
      const broker = this.connectedBroker(leader) ?? (await this.brokerOf(leader));
      return await sendProduceRequest(broker, batches, options);
    } catch (error) {
      this.drop(leader);
      const cause = refusalOf(error, this.connection) ?? errorMessage(error);
      const unanswered: ProduceAnswer = { kind: 'unanswered', maybeStored: sent, cause };
      return batches.map(() => unanswered);
    }
  }

  async refresh(topics: readonly string[]): Promise<void> {
    this.topics = topics;
    try {
      this.take(await this.requestMetadata());
    } catch (error) {
      const refusal = refusalOf(error, this.connection);
      const message = refusal ?? `no Kafka broker answers: ${errorMessage(error)}`;
      throw new AppError(refusal ? LOG_ACCESS_REFUSED : 'LOG_UNAVAILABLE', message, {
        retryable: true,
        cause: error,
      });
    }
  }

  async readMetadata(): Promise<MetadataResponse | undefined> {
    return this.topics.length === 0 ? undefined : await this.requestMetadata();
  }

  close(): void {
    this.isClosed = true;
    this.endReport();
    for (const nodeId of [...this.connected.keys()]) this.drop(nodeId);
  }

  private requestMetadata(): Promise<MetadataResponse> {
    const open: OpenBroker = (address, nodeId) => this.open(address, nodeId);
    return requestMetadata(open, this.metadataAddresses(), this.topics);
  }

  private connectedBroker(nodeId: number): Broker | undefined {
    const broker = this.connected.get(nodeId);
    return broker?.isConnected() ? broker : undefined;
  }

  private async brokerOf(nodeId: number): Promise<Broker> {
    const address = this.addresses.get(nodeId);
    if (address === undefined) throw new AppError('LOG_UNAVAILABLE', `broker ${nodeId} is not known`);
    const broker = this.connected.get(nodeId) ?? (await this.open(address, nodeId));
    this.connected.set(nodeId, broker);
    await broker.connect();
    return broker;
  }

  private open(address: Address, nodeId?: number): Promise<Broker> {
    if (this.isClosed) throw new AppError('LOG_CLOSED', 'the connection to Kafka is closed');
    return this.openBroker(address, nodeId);
  }

  /** Cuts a broker's connections: requests in flight fail immediately, and nothing more is read. */
  private drop(nodeId: number): void {
    const broker = this.connected.get(nodeId);
    this.connected.delete(nodeId);
    if (broker !== undefined) cut(broker);
  }

  /**
   * Returns the brokers to ask for metadata: connected ones first, then known ones, then those that
   * are configured.
   */
  private metadataAddresses(): Address[] {
    const isConnected = (nodeId: number): boolean => this.connected.get(nodeId)?.isConnected() ?? false;
    const known = shuffled([...this.addresses]).sort(
      ([a], [b]) => Number(isConnected(b)) - Number(isConnected(a)),
    );
    return [...known.map(([, address]) => address), ...seedAddresses(this.connection)];
  }

  private take({ brokers, topicMetadata }: MetadataResponse): void {
    for (const { nodeId, host, port } of brokers) {
      const previous = this.addresses.get(nodeId);
      if (previous !== undefined && (previous.host !== host || previous.port !== port)) this.drop(nodeId);
      this.addresses.set(nodeId, { host, port });
    }
    for (const { topic, partitionMetadata } of topicMetadata) {
      for (const { partitionId, leader } of partitionMetadata) {
        const name = partitionName(topic, partitionId);
        if (leader >= 0 && this.addresses.has(leader)) this.leaders.set(name, leader);
        else this.leaders.delete(name);
      }
    }
  }
}

const partitionName = (topic: string, partition: number): string => `${topic}/${partition}`;
