import type Broker from 'kafkajs/src/broker/index.js';
import protocolErrors from 'kafkajs/src/protocol/error.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { AppError, errorMessage } from '../../errors.ts';
import { isHeaderList } from '../headers.ts';
import type { OutgoingRecord } from '../log.ts';
import type { KafkaConnection } from './client.ts';
import { askForMetadata, createBrokerOpener, cut, seedAddresses } from './connect.ts';
import { type MetadataResponse, unchecked } from './metadata.ts';
import { LOG_ACCESS_REFUSED, refusalOf } from './problem.ts';
import { type Address, shuffled } from './sockets.ts';
import type { ProduceAnswer, ProduceBatch, ProduceTransport } from './transport.ts';

/** Answers after which the leader may nevertheless have stored the records: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND. */
const MAYBE_STORED_CODES = new Set([7, 20]);
/** UNKNOWN_SERVER_ERROR: nobody knows what the leader did; sent together again it would only fail again. */
const FAILED_INSIDE_CODE = -1;

/**
 * Produce requests straight to the leaders, on kafkajs's connections and encoders but below its producer. The producer
 * cannot give what is promised here: it remembers acknowledgements per broker across retries and so resolves with
 * records that were never written (kafkajs #1303), throws away the whole answer when one partition of it failed, lets
 * one partition without a leader stop all others, and does not tell whether a request that failed was ever sent.
 *
 * `requestTimeoutMs` is both the leader's time to gather acknowledgements and ours to wait for its answer.
 */
export function createKafkaBrokers(connection: KafkaConnection, requestTimeoutMs: number): ProduceTransport {
  const openBroker = createBrokerOpener(connection, requestTimeoutMs);
  const leaders = new Map<string, number>();
  const addresses = new Map<number, Address>();
  const connected = new Map<number, Broker>();
  let closed = false;

  function open(address: Address, nodeId?: number): Promise<Broker> {
    if (closed) throw new AppError('LOG_CLOSED', 'the connection to Kafka is closed');
    return openBroker(address, nodeId);
  }

  async function brokerOf(nodeId: number): Promise<Broker> {
    const address = addresses.get(nodeId);
    if (address === undefined) throw new AppError('LOG_UNAVAILABLE', `broker ${nodeId} is not known`);
    const broker = connected.get(nodeId) ?? (await open(address, nodeId));
    connected.set(nodeId, broker);
    await broker.connect();
    return broker;
  }

  /** Cuts the broker's connections: what was sent on them and is unanswered fails now, nothing is read from them again. */
  function drop(nodeId: number): void {
    const broker = connected.get(nodeId);
    connected.delete(nodeId);
    if (broker !== undefined) cut(broker);
  }

  async function produce(leader: number, batches: readonly ProduceBatch[]): Promise<ProduceAnswer[]> {
    let sent = false;
    try {
      const broker = await brokerOf(leader);
      const { request, response } = broker.lookupRequest(
        apiKeys.Produce,
        protocol.requests.Produce,
      )({ acks: -1, timeout: requestTimeoutMs, compression: 0, topicData: topicData(batches) });
      const encode = async (): Promise<KafkajsEncodable> => {
        const encoded = await request.encode();
        sent = true;
        return encoded;
      };
      const answer = await broker.connectionPool.send({
        request: { ...request, encode },
        response: { decode: response.decode, parse: unchecked },
        requestTimeout: requestTimeoutMs,
      });
      return answersOf(answer as ProduceResponse, batches);
    } catch (error) {
      drop(leader);
      const cause = refusalOf(error, connection) ?? errorMessage(error);
      const unanswered: ProduceAnswer = { kind: 'unanswered', maybeStored: sent, cause };
      return batches.map(() => unanswered);
    }
  }

  async function refresh(topics: readonly string[]): Promise<void> {
    try {
      take(await askForMetadata(open, candidates(), topics));
    } catch (error) {
      const refusal = refusalOf(error, connection);
      const message = refusal ?? `no Kafka broker answers: ${errorMessage(error)}`;
      throw new AppError(refusal ? LOG_ACCESS_REFUSED : 'LOG_UNAVAILABLE', message, {
        retryable: true,
        cause: error,
      });
    }
  }

  /** Whom to ask for metadata: brokers that are connected first, then known ones, then those of the settings. */
  function candidates(): Address[] {
    const known = shuffled([...addresses]).sort(
      ([a], [b]) => Number(isConnected(connected.get(b))) - Number(isConnected(connected.get(a))),
    );
    return [...known.map(([, address]) => address), ...seedAddresses(connection)];
  }

  function take(metadata: MetadataResponse): void {
    for (const { nodeId, host, port } of metadata.brokers) {
      const before = addresses.get(nodeId);
      if (before !== undefined && (before.host !== host || before.port !== port)) drop(nodeId);
      addresses.set(nodeId, { host, port });
    }
    for (const { topic, partitionMetadata } of metadata.topicMetadata) {
      for (const { partitionId, leader } of partitionMetadata) {
        if (leader >= 0 && addresses.has(leader)) leaders.set(partitionKey(topic, partitionId), leader);
        else leaders.delete(partitionKey(topic, partitionId));
      }
    }
  }

  return {
    leaderOf: (topic, partition) => leaders.get(partitionKey(topic, partition)),
    forget: (topic, partition) => void leaders.delete(partitionKey(topic, partition)),
    refresh,
    produce,
    close() {
      closed = true;
      for (const nodeId of [...connected.keys()]) drop(nodeId);
    },
  };
}

/** Kafka's answer as kafkajs decodes it, before it throws for the first error inside. */
interface ProduceResponse {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly errorCode: number;
      readonly baseOffset: string;
    }[];
  }[];
}

function topicData(batches: readonly ProduceBatch[]): object[] {
  const byTopic = new Map<string, { partition: number; messages: readonly object[] }[]>();
  for (const { topic, partition, records } of batches) {
    const partitions = byTopic.get(topic) ?? [];
    byTopic.set(topic, partitions);
    partitions.push({ partition, messages: records.map(toMessage) });
  }
  return [...byTopic].map(([topic, partitions]) => ({ topic, partitions }));
}

/** Returns the record as kafkajs encodes it: of headers it takes an object only, with a list where a name is repeated. */
function toMessage(record: OutgoingRecord): object {
  if (!isHeaderList(record.headers)) return record;
  const headers: Record<string, Buffer[]> = Object.create(null);
  // kafkajs cannot encode a null value.
  for (const { name, value } of record.headers) {
    headers[name] = [...(headers[name] ?? []), value ?? Buffer.alloc(0)];
  }
  return { ...record, headers };
}

/** Each batch's own answer. A batch that the response does not name was not acknowledged, whatever else it says. */
function answersOf(response: ProduceResponse, batches: readonly ProduceBatch[]): ProduceAnswer[] {
  const named = new Map<string, { errorCode: number; baseOffset: string }>();
  for (const { topicName, partitions } of response.topics) {
    for (const answer of partitions) named.set(partitionKey(topicName, answer.partition), answer);
  }
  return batches.map(({ topic, partition }): ProduceAnswer => {
    const answer = named.get(partitionKey(topic, partition));
    if (answer === undefined) {
      return { kind: 'unanswered', maybeStored: true, cause: 'the answer does not name the partition' };
    }
    const { errorCode, baseOffset } = answer;
    if (errorCode === 0 && BigInt(baseOffset) >= 0n)
      return { kind: 'stored', baseOffset: BigInt(baseOffset) };
    const error = protocolErrors.createErrorFromCode(errorCode);
    const unknown = errorCode === 0 || error.type === 'KAFKAJS_UNKNOWN_ERROR_CODE';
    const waits = unknown || MAYBE_STORED_CODES.has(errorCode);
    return {
      kind: 'refused',
      type: error.type,
      retryable: waits || error.retriable,
      maybeStored: waits || errorCode === FAILED_INSIDE_CODE,
    };
  });
}

const partitionKey = (topic: string, partition: number): string => `${topic}/${partition}`;

const isConnected = (broker: Broker | undefined): boolean => broker?.isConnected() ?? false;
