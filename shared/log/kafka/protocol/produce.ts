import type Broker from 'kafkajs/src/broker/index.js';
import protocolErrors from 'kafkajs/src/protocol/error.js';
import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import type { OutgoingRecord } from '../../log.ts';
import { BATCH_HEAD_BYTES, writeBatch } from './record-batch.ts';
import { sendRequest } from './send-request.ts';

/** The records of one partition in one produce request: the leader stores all of them or none. */
export interface ProduceBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly OutgoingRecord[];
  /** The sum of the records' `recordBytes` (record-batch.ts). */
  readonly bytes: number;
}

export type ProduceAnswer =
  | { readonly kind: 'stored'; readonly baseOffset: bigint }
  | {
      readonly kind: 'refused';
      /** Kafka's name of the error, such as NOT_LEADER_FOR_PARTITION. */
      readonly type: string;
      readonly retryable: boolean;
      /** False if the error means that nothing was stored. */
      readonly maybeStored: boolean;
    }
  | {
      readonly kind: 'unanswered';
      /** False if the request was never written to a connection. */
      readonly maybeStored: boolean;
      readonly cause: string;
    };

/**
 * Errors after which the leader may have stored the records anyway: REQUEST_TIMED_OUT,
 * NOT_ENOUGH_REPLICAS_AFTER_APPEND.
 */
const MAYBE_STORED_CODES = new Set([7, 20]);
/**
 * UNKNOWN_SERVER_ERROR: the records may be stored. Sending them together again would fail again.
 */
const UNKNOWN_SERVER_ERROR_CODE = -1;

const ACKS_OF_ALL = -1;
/** Bytes of a request's body in addition to its topics. */
const BODY_HEAD_BYTES = 12;
/** Bytes of a topic in addition to its name and partitions, and of a partition besides its batch. */
const TOPIC_BYTES = 6;
const PARTITION_BYTES = 8;

export interface ProduceOptions {
  /** Milliseconds for the leader to collect acknowledgements, and to wait for its response. */
  readonly timeoutMs: number;
  /** Called just before the request is written to the connection. */
  readonly onSent: () => void;
}

/**
 * Sends record batches (acks of all in-sync replicas, uncompressed) to a connected broker, and
 * resolves with one answer per batch. The request is written before this function returns.
 */
export async function sendProduceRequest(
  broker: Broker,
  batches: readonly ProduceBatch[],
  { timeoutMs, onSent }: ProduceOptions,
): Promise<ProduceAnswer[]> {
  // Only for the version, which kafkajs chooses from 3 to 7, and the decoder.
  const { request, response } = broker.lookupRequest(
    apiKeys.Produce,
    protocol.requests.Produce,
  )({ acks: ACKS_OF_ALL, timeout: timeoutMs, compression: 0, topicData: [] });
  const connection = broker.connectionPool.pool[0]!;
  const topics = byTopic(batches);
  const payload = await sendRequest(connection, {
    request,
    bodyBytesMax: bodyBytesMax(batches),
    writeBody: (target, start) => writeBody(target, start, topics, timeoutMs),
    timeoutMs,
    onSent,
  });
  const decoded = (await response.decode(payload)) as ProduceResponse;
  connection.requestQueue.maybeThrottle(decoded.clientSideThrottleTime ?? null);
  return produceAnswers(decoded, batches);
}

function byTopic(batches: readonly ProduceBatch[]): Map<string, ProduceBatch[]> {
  const topics = new Map<string, ProduceBatch[]>();
  for (const batch of batches) {
    const ofTopic = topics.get(batch.topic);
    if (ofTopic) ofTopic.push(batch);
    else topics.set(batch.topic, [batch]);
  }
  return topics;
}

function bodyBytesMax(batches: readonly ProduceBatch[]): number {
  let max = BODY_HEAD_BYTES;
  for (const { topic, bytes } of batches) {
    max += TOPIC_BYTES + 3 * topic.length + PARTITION_BYTES + BATCH_HEAD_BYTES + bytes;
  }
  return max;
}

/** Writes the body of a request, which has the same form in the versions 3 to 8. */
function writeBody(
  target: Buffer,
  start: number,
  topics: ReadonlyMap<string, readonly ProduceBatch[]>,
  timeoutMs: number,
): number {
  const nowMs = Date.now();
  // No transactional id.
  target.writeInt16BE(-1, start);
  target.writeInt16BE(ACKS_OF_ALL, start + 2);
  target.writeInt32BE(timeoutMs, start + 4);
  let at = target.writeInt32BE(topics.size, start + 8);
  for (const [topic, batches] of topics) {
    const nameLength = target.write(topic, at + 2);
    target.writeInt16BE(nameLength, at);
    at = target.writeInt32BE(batches.length, at + 2 + nameLength);
    for (const { partition, records } of batches) {
      target.writeInt32BE(partition, at);
      const batchStart = at + PARTITION_BYTES;
      const end = writeBatch(target, batchStart, records, nowMs);
      target.writeInt32BE(end - batchStart, at + 4);
      at = end;
    }
  }
  return at;
}

/** Kafka's response as decoded by kafkajs, before kafkajs throws the first error inside. */
interface ProduceResponse {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly errorCode: number;
      readonly baseOffset: string;
    }[];
  }[];
  /** Milliseconds for which the broker asks the client to send nothing. */
  readonly clientSideThrottleTime?: number;
}

/**
 * Returns the result of each batch. A batch that is missing in the response was not acknowledged.
 */
function produceAnswers(response: ProduceResponse, batches: readonly ProduceBatch[]): ProduceAnswer[] {
  const named = new Map<string, { errorCode: number; baseOffset: string }>();
  for (const { topicName, partitions } of response.topics) {
    for (const answer of partitions) named.set(`${topicName}/${answer.partition}`, answer);
  }
  return batches.map(({ topic, partition }): ProduceAnswer => {
    const answer = named.get(`${topic}/${partition}`);
    if (answer === undefined) {
      return { kind: 'unanswered', maybeStored: true, cause: 'the answer does not name the partition' };
    }
    const { errorCode, baseOffset } = answer;
    if (errorCode === 0 && BigInt(baseOffset) >= 0n) {
      return { kind: 'stored', baseOffset: BigInt(baseOffset) };
    }
    return refusalAnswer(errorCode);
  });
}

function refusalAnswer(errorCode: number): ProduceAnswer {
  const error = protocolErrors.createErrorFromCode(errorCode);
  const unknown = errorCode === 0 || error.type === 'KAFKAJS_UNKNOWN_ERROR_CODE';
  const maybeLater = unknown || MAYBE_STORED_CODES.has(errorCode);
  return {
    kind: 'refused',
    type: error.type,
    retryable: maybeLater || error.retriable,
    maybeStored: maybeLater || errorCode === UNKNOWN_SERVER_ERROR_CODE,
  };
}
