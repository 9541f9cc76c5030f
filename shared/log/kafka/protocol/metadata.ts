import type Broker from 'kafkajs/src/broker/index.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';

/** Kafka's response as decoded by kafkajs, before kafkajs throws the first error inside. */
export interface MetadataResponse {
  readonly brokers: readonly { readonly nodeId: number; readonly host: string; readonly port: number }[];
  readonly topicMetadata: readonly TopicMetadata[];
}

export interface TopicMetadata {
  /** The error code of the topic; 0: none. */
  readonly topicErrorCode: number;
  readonly topic: string;
  readonly partitionMetadata: readonly {
    readonly partitionId: number;
    /** The node id of the partition's leader; -1 if there is none. */
    readonly leader: number;
    /** The node ids of the brokers that should have a copy. */
    readonly replicas: readonly number[];
    /** Those whose copy is complete. */
    readonly isr: readonly number[];
  }[];
}

/**
 * Requests the metadata of topics from a connected broker; without names, of all topics. The
 * response contains the errors of topics.
 */
export async function metadataOf(broker: Broker, topics: readonly string[]): Promise<MetadataResponse> {
  const { request, response } = broker.lookupRequest(
    apiKeys.Metadata,
    protocol.requests.Metadata,
  )({ topics: [...topics], allowAutoTopicCreation: false });
  const answer = await broker.connectionPool.send({
    request,
    response: { decode: response.decode, parse: unchecked },
  });
  return answer as MetadataResponse;
}

/** Returns a decoded response unchanged, so that the caller can check the error of each part. */
export const unchecked = async (decoded: unknown): Promise<unknown> => decoded;
