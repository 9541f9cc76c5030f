import kafkajs from 'kafkajs';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { partitionOf, recordKey } from '../../shared/log/partition.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import type { Laboratory, Tenant } from './laboratory.ts';
import type { Ledger, Sent } from './ledger.ts';

/** Values of one entity's records, in order. */
export interface Values {
  readonly kind: Kind;
  readonly tenant: Tenant;
  readonly entity: string;
  readonly values: readonly (Buffer | null)[];
}

/**
 * Publishes records directly to the log, bypassing the gateways. Resolves with their positions, in
 * the format of dead letters.
 */
export async function putIntoLog(
  lab: Laboratory,
  { kind, tenant, entity, values }: Values,
): Promise<string[]> {
  const topic = topicOf(lab.topicPrefix, kind);
  const layout = (await loadTopicLayouts(await lab.pool(), topic)).get(topic);
  if (!layout) throw new Error(`${topic} is not registered`);
  const key = recordKey(tenant.tenantId, entity);
  const partition = partitionOf(tenant.tenantId, key, layout);
  const publisher = (await lab.eventLog()).createPublisher({
    deadlineMs: 10_000,
    bufferedBytesMax: 16 << 20,
  });
  const positions: string[] = [];
  try {
    for (const value of values) {
      const offset =
        value === null && lab.cluster
          ? await publishNull(lab.cluster.brokers, { topic, partition, key })
          : await publish(value ?? Buffer.alloc(0));
      positions.push(`${layout.generation}/${topic}/${partition}/${offset}`);
    }
  } finally {
    await publisher.close();
  }
  return positions;

  async function publish(value: Buffer): Promise<bigint> {
    const [outcome] = await publisher.publish(topic, [{ partition, key, value, headers: EVENT_HEADERS }]);
    if (!outcome!.ok) throw new Error(`${topic} refused a record: ${outcome!.reason}`);
    return outcome!.offset;
  }
}

/** Returns a log value as a gateway writes it. The ledger counts its record as accepted. */
export function acceptedAgent(
  ledger: Ledger,
  { tenantId }: Tenant,
  record: Pick<Sent, 'marker' | 'entity' | 'seq'>,
): Buffer {
  ledger.sent.push({
    ...record,
    kind: 'agent-metadata',
    tenantId,
    id: record.marker,
    answer: 'accepted',
    gateway: 'the laboratory',
  });
  return agentEvent(tenantId, record);
}

/** Returns a log value as a gateway writes it. */
export function agentEvent(tenantId: string, { marker, entity }: Pick<Sent, 'marker' | 'entity'>): Buffer {
  return encodeEvent({
    kind: 'agent-metadata',
    tenantId,
    id: marker,
    idGenerated: false,
    entity,
    acceptedAtMs: Date.now(),
    requestId: 'faults',
    data: { eventId: marker, externalAgentId: entity, agentName: marker },
  });
}

/** Publishes a null value through Kafka. The event log's interface has no null values. */
async function publishNull(
  brokers: string,
  { topic, partition, key }: { readonly topic: string; readonly partition: number; readonly key: string },
): Promise<string> {
  const client = new kafkajs.Kafka({
    brokers: brokers.split(','),
    clientId: 'sluice-faults',
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const producer = client.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  try {
    const [written] = await producer.send({ topic, messages: [{ partition, key, value: null }] });
    return written!.baseOffset!;
  } finally {
    await producer.disconnect();
  }
}
