import type Broker from 'kafkajs/src/broker/index.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';

/** Kafka's answer as kafkajs decodes it, before it throws for the first error inside. */
export interface MetadataResponse {
  readonly brokers: readonly { readonly nodeId: number; readonly host: string; readonly port: number }[];
  readonly topicMetadata: readonly TopicMetadata[];
}

export interface TopicMetadata {
  /** 0: none. */
  readonly topicErrorCode: number;
  readonly topic: string;
  readonly partitionMetadata: readonly {
    readonly partitionId: number;
    /** Its broker's node id; -1 where it has none. */
    readonly leader: number;
  }[];
}

/**
 * Asks a broker that is connected for the metadata of topics; without names, of all. Errors of
 * topics are in the answer.
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

/** A parser for answers whose errors are looked at part by part. */
export const unchecked = async (decoded: unknown): Promise<unknown> => decoded;
