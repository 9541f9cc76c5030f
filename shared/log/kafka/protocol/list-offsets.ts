import type Broker from 'kafkajs/src/broker/index.js';
import protocolErrors from 'kafkajs/src/protocol/error.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import type { PartitionBounds } from '../../log.ts';
import { unchecked } from './metadata.ts';

/** Kafka's replica id of a client, which is not a replica. */
export const NO_REPLICA = -1;
/** Kafka's isolation level in which all records of the log are visible. */
export const READ_UNCOMMITTED = 0;
/** Special timestamps of ListOffsets requests. */
const EARLIEST = -2;
const LATEST = -1;

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/**
 * Connects to a broker and requests the bounds of partitions that it leads. Returns the bounds or
 * errors of the partitions, in order.
 */
export async function listBounds(
  broker: Broker,
  partitions: readonly TopicPartition[],
): Promise<(PartitionBounds | Error)[]> {
  await broker.connect();
  const earliest = await listOffsets(broker, partitions, EARLIEST);
  const latest = await listOffsets(broker, partitions, LATEST);
  return partitions.map((_, index) => {
    const [first, end] = [earliest[index]!, latest[index]!];
    if (first instanceof Error) return first;
    return end instanceof Error ? end : { earliest: first, latest: end };
  });
}

async function listOffsets(
  broker: Broker,
  partitions: readonly TopicPartition[],
  timestamp: number,
): Promise<(bigint | Error)[]> {
  const { request, response } = broker.lookupRequest(
    apiKeys.ListOffsets,
    protocol.requests.ListOffsets,
  )({ replicaId: NO_REPLICA, isolationLevel: READ_UNCOMMITTED, topics: byTopic(partitions, timestamp) });
  const answer = await broker.connectionPool.send({
    request,
    response: { decode: response.decode, parse: unchecked },
  });
  return offsetsOf(answer as ListOffsetsResponse, partitions);
}

function byTopic(partitions: readonly TopicPartition[], timestamp: number): object[] {
  const topics = new Map<string, { partition: number; timestamp: number }[]>();
  for (const { topic, partition } of partitions) {
    topics.set(topic, [...(topics.get(topic) ?? []), { partition, timestamp }]);
  }
  return [...topics].map(([topic, wanted]) => ({ topic, partitions: wanted }));
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

function offsetsOf(
  { responses }: ListOffsetsResponse,
  partitions: readonly TopicPartition[],
): (bigint | Error)[] {
  return partitions.map(({ topic, partition }) => {
    const answer = responses
      .find((one) => one.topic === topic)
      ?.partitions.find((one) => one.partition === partition);
    if (answer === undefined) return new Error(`the answer does not name partition ${partition} of ${topic}`);
    if (answer.errorCode !== 0) return protocolErrors.createErrorFromCode(answer.errorCode);
    return BigInt(answer.offset);
  });
}
