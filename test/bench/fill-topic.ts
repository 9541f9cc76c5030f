import { createHash, randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { writeJson } from '../../shared/contracts/json.ts';
import { type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog, OutgoingRecord, Publisher } from '../../shared/log/log.ts';
import { partitionOf, recordKey, type TopicLayout } from '../../shared/log/partition.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import { agent, messageSent } from './load/records.ts';
import { ENTITIES } from './load/request-template.ts';
import type { LoadedProduct } from './loaded-product.ts';

const PREFIX = 'sluice.';
const RECORDS_PER_CALL = 250;
const CALLS_IN_FLIGHT = 16;
const DEADLINE_MS = 60_000;
const HOUR_MS = 3_600_000;
const BUFFERED_BYTES_MAX = 256 * 1024 * 1024;

/** A record as a gateway would publish it. */
export interface TopicRecord {
  readonly tenantId: string;
  readonly entity: string;
  readonly value: Buffer;
}

/**
 * Returns accepted records with all members and ULIDs, of the tenants in turn. `tracedEvery`: every
 * such record has a trace that was sampled; undefined: none has a trace.
 */
export function* acceptedRecords(
  kind: 'message-sent' | 'agent-metadata',
  tenantIds: readonly string[],
  count: number,
  tracedEvery?: number,
): Generator<TopicRecord> {
  const nextId = createUlidGenerator(systemClock);
  const requestId = nextId();
  for (let i = 0; i < count; i++) {
    const tenantId = tenantIds[i % tenantIds.length]!;
    const entity = `E${String(Math.floor(i / tenantIds.length) % ENTITIES).padStart(6, '0')}`;
    const id = nextId();
    const data = kind === 'message-sent' ? messageSent(id, entity) : agent(id, entity);
    yield {
      tenantId,
      entity,
      value: encodeEvent({
        kind,
        tenantId,
        id,
        idGenerated: false,
        entity,
        acceptedAtMs: systemClock.nowMs(),
        requestId,
        traceparent: tracedEvery !== undefined && i % tracedEvery === 0 ? sampledTrace() : undefined,
        contentHash: createHash('sha256').update(writeJson(data)).digest('hex'),
        data,
      }),
    };
  }
}

function sampledTrace(): string {
  const ids = randomBytes(24).toString('hex');
  return `00-${ids.slice(0, 32)}-${ids.slice(32)}-01`;
}

/** Returns records that no worker can read. */
export function* unreadableRecords(tenantId: string, count: number): Generator<TopicRecord> {
  for (let i = 0; i < count; i++) {
    yield { tenantId, entity: `unreadable-${i % ENTITIES}`, value: Buffer.from(`{"unreadable":${i}`) };
  }
}

/** Publishes the records to a kind's topic. Rejects if one is not acknowledged. */
export async function fillTopic(
  { broker, pool }: LoadedProduct,
  kind: Kind,
  records: Iterable<TopicRecord>,
): Promise<void> {
  const topic = topicOf(PREFIX, kind);
  const layout = (await loadTopicLayouts(pool, PREFIX)).get(topic)!;
  const log = openLog(broker!);
  const publisher = log.createPublisher({ deadlineMs: DEADLINE_MS, bufferedBytesMax: BUFFERED_BYTES_MAX });
  const chunks = chunksOf(records, layout);
  const publishAll = async () => {
    for (let next = chunks.next(); !next.done; next = chunks.next()) {
      await publish(publisher, topic, next.value);
    }
  };
  await Promise.all(Array.from({ length: CALLS_IN_FLIGHT }, publishAll));
  await publisher.close();
  await log.close();
}

/** Creates a topic that the product does not use. */
export async function createPlainTopic(broker: string, topic: string, partitions: number): Promise<void> {
  const log = openLog(broker);
  await log.createTopics([{ topic, partitions, replicas: 1, retentionMs: HOUR_MS }]);
  await log.close();
}

function openLog(broker: string): EventLog {
  return createKafkaLog({
    brokers: [broker],
    clientId: 'sluice-bench',
    logger: pino({ level: 'silent' }),
  });
}

async function publish(
  publisher: Publisher,
  topic: string,
  records: readonly OutgoingRecord[],
): Promise<void> {
  const outcomes = await publisher.publish(topic, records);
  const failed = outcomes.find((outcome) => !outcome.ok);
  if (failed) throw new Error(`a record was not published: ${JSON.stringify(failed)}`);
}

function* chunksOf(records: Iterable<TopicRecord>, layout: TopicLayout): Generator<OutgoingRecord[]> {
  let chunk: OutgoingRecord[] = [];
  for (const { tenantId, entity, value } of records) {
    const key = recordKey(tenantId, entity);
    chunk.push({ partition: partitionOf(tenantId, key, layout), key, headers: EVENT_HEADERS, value });
    if (chunk.length < RECORDS_PER_CALL) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}
