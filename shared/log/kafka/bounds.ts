import protocolErrors from 'kafkajs/src/protocol/error.js';
import { withDeadline } from '../../async.ts';
import { AppError } from '../../errors.ts';
import type { PartitionBounds } from '../log.ts';
import { type KafkaConnection, REQUEST_TIMEOUT_MS } from './client.ts';
import { createBrokerOpener, cut, type OpenBroker, requestMetadata, seedAddresses } from './connect.ts';
import { kafkaError } from './problem.ts';
import { listBounds, type TopicPartition } from './protocol/list-offsets.ts';
import type { TopicMetadata } from './protocol/metadata.ts';
import type { Address } from './sockets.ts';

/**
 * The bounds of a topic by partition; an error if the partition has no leader, or its leader did
 * not answer.
 */
export type FetchedBounds = ReadonlyMap<number, PartitionBounds | AppError>;

/**
 * Error codes of topics that count as missing, because they do not exist or the client may not see
 * them: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED.
 */
const HIDDEN: ReadonlySet<number> = new Set([3, 29]);

/**
 * Returns the topics that exist and may be seen, with their partitions. Rejects with a retryable
 * AppError (see {@link kafkaError}).
 */
export async function findTopics(
  connection: KafkaConnection,
  topics: readonly string[],
): Promise<TopicMetadata[]> {
  return (await find(connection, createBrokerOpener(connection, REQUEST_TIMEOUT_MS), topics)).found;
}

/**
 * Returns the bounds of each partition of the topics that exist. Requests are sent concurrently to
 * all leaders, so that a leader that is down affects only its own partitions. Rejects with a
 * retryable AppError if no broker answers.
 */
export async function fetchBounds(
  connection: KafkaConnection,
  topics: readonly string[],
): Promise<Map<string, FetchedBounds>> {
  const openBroker = createBrokerOpener(connection, REQUEST_TIMEOUT_MS);
  const { found, addresses } = await find(connection, openBroker, topics);
  const bounds = new Map(found.map(({ topic }) => [topic, new Map<number, PartitionBounds | AppError>()]));
  const ask = async ([leader, partitions]: [number, TopicPartition[]]): Promise<void> => {
    const answers = await askLeader(openBroker, addresses.get(leader), partitions);
    for (const [index, { topic, partition }] of partitions.entries()) {
      const answer = answers[index]!;
      bounds.get(topic)!.set(partition, answer instanceof Error ? kafkaError(answer, connection) : answer);
    }
  };
  await Promise.all([...byLeader(found)].map(ask));
  return bounds;
}

/**
 * Returns the same as {@link fetchBounds}, but rejects if the bounds of any partition are unknown.
 */
export async function requireBounds(
  connection: KafkaConnection,
  topics: readonly string[],
): Promise<Map<string, Map<number, PartitionBounds>>> {
  const required = new Map<string, Map<number, PartitionBounds>>();
  for (const [topic, asked] of await fetchBounds(connection, topics)) {
    const bounds = new Map<number, PartitionBounds>();
    for (const [partition, answer] of asked) bounds.set(partition, boundsOf(answer));
    required.set(topic, bounds);
  }
  return required;
}

/** Returns the bounds, or throws the error. */
export function boundsOf(asked: PartitionBounds | AppError): PartitionBounds {
  if (asked instanceof AppError) throw asked;
  return asked;
}

async function find(
  connection: KafkaConnection,
  openBroker: OpenBroker,
  topics: readonly string[],
): Promise<{ found: TopicMetadata[]; addresses: Map<number, Address> }> {
  // A request without names would return all topics.
  if (topics.length === 0) return { found: [], addresses: new Map() };
  try {
    const { brokers, topicMetadata } = await requestMetadata(openBroker, seedAddresses(connection), topics);
    const found = topicMetadata.filter(({ topicErrorCode }) => !HIDDEN.has(topicErrorCode));
    const failed = found.find(({ topicErrorCode }) => topicErrorCode !== 0);
    if (failed) throw protocolErrors.createErrorFromCode(failed.topicErrorCode);
    return { found, addresses: new Map(brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }])) };
  } catch (error) {
    throw kafkaError(error, connection);
  }
}

function byLeader(topics: readonly TopicMetadata[]): Map<number, TopicPartition[]> {
  const led = new Map<number, TopicPartition[]>();
  for (const { topic, partitionMetadata } of topics) {
    for (const { partitionId: partition, leader } of partitionMetadata) {
      led.set(leader, [...(led.get(leader) ?? []), { topic, partition }]);
    }
  }
  return led;
}

/** Returns the bounds of the partitions, in order, or their errors; never rejects. */
async function askLeader(
  openBroker: OpenBroker,
  address: Address | undefined,
  partitions: readonly TopicPartition[],
): Promise<(PartitionBounds | Error)[]> {
  if (address === undefined) {
    const text = ({ topic, partition }: TopicPartition) => `partition ${partition} of ${topic} has no leader`;
    return partitions.map((place) => new AppError('LOG_UNAVAILABLE', text(place), { retryable: true }));
  }
  const broker = await openBroker(address);
  try {
    return await withDeadline(listBounds(broker, partitions), REQUEST_TIMEOUT_MS);
  } catch (error) {
    return partitions.map(() => error as Error);
  } finally {
    cut(broker);
  }
}
