import type Broker from 'kafkajs/src/broker/index.js';
import protocolErrors from 'kafkajs/src/protocol/error.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { withDeadline } from '../../async.ts';
import { AppError } from '../../errors.ts';
import type { PartitionBounds } from '../log.ts';
import { type KafkaConnection, REQUEST_TIMEOUT_MS } from './client.ts';
import { askForMetadata, createBrokerOpener, cut, type OpenBroker, seedAddresses } from './connect.ts';
import { type TopicMetadata, unchecked } from './metadata.ts';
import { kafkaError } from './problem.ts';
import type { Address } from './sockets.ts';

/** Of a topic by partition; an error where the partition's leader did not answer, or it has none. */
export type AskedBounds = ReadonlyMap<number, PartitionBounds | AppError>;

/** UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED: a topic that may not be seen is none. */
const HIDDEN: ReadonlySet<number> = new Set([3, 29]);
/** Kafka's id of a client that is no replica. */
export const NO_REPLICA = -1;
/** Kafka's isolation level in which all records of the log are seen. */
export const READ_UNCOMMITTED = 0;
/** What is asked for instead of a time. */
const FIRST = -2;
const END = -1;

/** Which of the topics exist and may be seen, with their partitions. Rejects with a retryable AppError (see {@link kafkaError}). */
export async function findTopics(
  connection: KafkaConnection,
  topics: readonly string[],
): Promise<TopicMetadata[]> {
  return (await find(connection, createBrokerOpener(connection, REQUEST_TIMEOUT_MS), topics)).found;
}

/**
 * What each partition of the topics that exist holds. Leaders are asked side by side, each for its own partitions, so that
 * one that is down hides no other's. Rejects with a retryable AppError where no broker answers.
 */
export async function askBounds(
  connection: KafkaConnection,
  topics: readonly string[],
): Promise<Map<string, AskedBounds>> {
  const openBroker = createBrokerOpener(connection, REQUEST_TIMEOUT_MS);
  const { found, addresses } = await find(connection, openBroker, topics);
  const bounds = new Map(found.map(({ topic }) => [topic, new Map<number, PartitionBounds | AppError>()]));
  const led = new Map<number, Place[]>();
  for (const { topic, partitionMetadata } of found) {
    for (const { partitionId: partition, leader } of partitionMetadata) {
      led.set(leader, [...(led.get(leader) ?? []), { topic, partition }]);
    }
  }
  const ask = async ([leader, places]: [number, Place[]]): Promise<void> => {
    const address = addresses.get(leader);
    const held = await askLeader(openBroker, address, places).catch((error) => places.map(() => error));
    for (const [index, { topic, partition }] of places.entries()) {
      const answer = held[index]!;
      bounds.get(topic)!.set(partition, answer instanceof Error ? kafkaError(answer, connection) : answer);
    }
  };
  await Promise.all([...led].map(ask));
  return bounds;
}

/** The same, all or nothing: rejects where one of the partitions has no answer. */
export async function requireBounds(
  connection: KafkaConnection,
  topics: readonly string[],
): Promise<Map<string, Map<number, PartitionBounds>>> {
  const required = new Map<string, Map<number, PartitionBounds>>();
  for (const [topic, asked] of await askBounds(connection, topics)) {
    const held = new Map<number, PartitionBounds>();
    for (const [partition, bounds] of asked) held.set(partition, boundsOf(bounds));
    required.set(topic, held);
  }
  return required;
}

/** Throws where it is an error. */
export function boundsOf(asked: PartitionBounds | AppError): PartitionBounds {
  if (asked instanceof AppError) throw asked;
  return asked;
}

interface Place {
  readonly topic: string;
  readonly partition: number;
}

async function find(
  connection: KafkaConnection,
  openBroker: OpenBroker,
  topics: readonly string[],
): Promise<{ found: TopicMetadata[]; addresses: Map<number, Address> }> {
  // Without names a broker would tell of all topics.
  if (topics.length === 0) return { found: [], addresses: new Map() };
  try {
    const { brokers, topicMetadata } = await askForMetadata(openBroker, seedAddresses(connection), topics);
    const found = topicMetadata.filter(({ topicErrorCode }) => !HIDDEN.has(topicErrorCode));
    const wrong = found.find(({ topicErrorCode }) => topicErrorCode !== 0);
    if (wrong) throw protocolErrors.createErrorFromCode(wrong.topicErrorCode);
    return { found, addresses: new Map(brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }])) };
  } catch (error) {
    throw kafkaError(error, connection);
  }
}

/** Bounds of the partitions in their order, or what is wrong with them. */
async function askLeader(
  openBroker: OpenBroker,
  address: Address | undefined,
  places: readonly Place[],
): Promise<(PartitionBounds | Error)[]> {
  if (address === undefined) {
    const text = ({ topic, partition }: Place) => `partition ${partition} of ${topic} has no leader`;
    return places.map((place) => new AppError('LOG_UNAVAILABLE', text(place), { retryable: true }));
  }
  const broker = await openBroker(address);
  try {
    return await withDeadline(boundsFrom(broker, places), REQUEST_TIMEOUT_MS);
  } finally {
    cut(broker);
  }
}

async function boundsFrom(broker: Broker, places: readonly Place[]): Promise<(PartitionBounds | Error)[]> {
  await broker.connect();
  const firsts = await listOffsets(broker, places, FIRST);
  const ends = await listOffsets(broker, places, END);
  return places.map((_, index) => {
    const [earliest, latest] = [firsts[index]!, ends[index]!];
    if (earliest instanceof Error) return earliest;
    return latest instanceof Error ? latest : { earliest, latest };
  });
}

async function listOffsets(
  broker: Broker,
  places: readonly Place[],
  timestamp: number,
): Promise<(bigint | Error)[]> {
  const { request, response } = broker.lookupRequest(
    apiKeys.ListOffsets,
    protocol.requests.ListOffsets,
  )({ replicaId: NO_REPLICA, isolationLevel: READ_UNCOMMITTED, topics: byTopic(places, timestamp) });
  const answer = await broker.connectionPool.send({
    request,
    response: { decode: response.decode, parse: unchecked },
  });
  return offsetsOf(answer as ListOffsetsResponse, places);
}

function byTopic(places: readonly Place[], timestamp: number): object[] {
  const topics = new Map<string, { partition: number; timestamp: number }[]>();
  for (const { topic, partition } of places) {
    topics.set(topic, [...(topics.get(topic) ?? []), { partition, timestamp }]);
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }));
}

interface ListOffsetsResponse {
  readonly responses: readonly {
    readonly topic: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly errorCode: number;
      readonly offset: string;
    }[];
  }[];
}

function offsetsOf({ responses }: ListOffsetsResponse, places: readonly Place[]): (bigint | Error)[] {
  return places.map(({ topic, partition }) => {
    const answer = responses
      .find((one) => one.topic === topic)
      ?.partitions.find((one) => one.partition === partition);
    if (answer === undefined) return new Error(`the answer does not name partition ${partition} of ${topic}`);
    if (answer.errorCode !== 0) return protocolErrors.createErrorFromCode(answer.errorCode);
    return BigInt(answer.offset);
  });
}
