import { compareText } from '../compare-text.ts';
import type { JsonObject } from '../contracts/json.ts';
import { type WebhookType, webhookBody } from '../contracts/webhooks.ts';
import type { IdGenerator } from '../ids.ts';
import type { Queryable } from './pool.ts';

/** Channel on which dispatchers hear that deliveries were written. */
export const DELIVERIES_CHANNEL = 'sluice_deliveries';

/** Something that a tenant's webhook endpoints may want to know. */
export interface Signal {
  readonly tenantId: string;
  readonly type: WebhookType;
  /** Signals with the same key reach an endpoint in the order in which they were written; null: in no order. */
  readonly orderingKey: string | null;
  readonly timestampMs: number;
  readonly data: JsonObject;
}

export interface InsertSignalsOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
}

interface Message {
  readonly id: string;
  readonly signal: Signal;
  readonly endpointIds: readonly string[];
}

/**
 * Writes a message for each signal that somebody listens to and a delivery for each endpoint of the tenant that wants
 * its type; resolves with the number of deliveries. Runs inside the transaction that stores what is signalled, so that
 * a signal exists exactly when its record does. The transaction must be the only one that writes signals of these
 * ordering keys at the time (a worker's batch, which holds its partition's position, is).
 */
export async function insertSignals(
  client: Queryable,
  signals: readonly Signal[],
  options: InsertSignalsOptions,
): Promise<number> {
  if (signals.length === 0) return 0;
  const endpoints = await findEndpoints(
    client,
    [...new Set(signals.map((signal) => signal.tenantId))].sort(),
  );
  const messages: Message[] = [];
  for (const signal of signals) {
    const wanting = (endpoints.get(signal.tenantId) ?? []).filter(
      ({ types }) => types === null || types.includes(signal.type),
    );
    if (wanting.length === 0) continue;
    messages.push({ id: options.nextId(), signal, endpointIds: wanting.map(({ endpointId }) => endpointId) });
  }
  if (messages.length === 0) return 0;
  const createdAt = new Date(options.nowMs);
  await insertMessages(client, messages, createdAt);
  const deliveries = await insertDeliveries(client, messages, createdAt);
  // One for all: a notification takes a lock at commit that all notifying transactions share.
  await client.query('select pg_notify($1, $2)', [DELIVERIES_CHANNEL, '']);
  return deliveries;
}

interface Listener {
  readonly endpointId: string;
  readonly types: readonly string[] | null;
}

async function findEndpoints(client: Queryable, tenantIds: string[]): Promise<Map<string, Listener[]>> {
  const { rows } = await client.query<{
    tenant_id: string;
    endpoint_id: string;
    event_types: string[] | null;
  }>(
    `select tenant_id, endpoint_id, event_types
       from webhook_endpoints
      where tenant_id = any($1::text[]) and state = 'enabled'
      order by tenant_id, endpoint_id`,
    [tenantIds],
  );
  const endpoints = new Map<string, Listener[]>();
  for (const row of rows) {
    const listener = { endpointId: row.endpoint_id, types: row.event_types };
    const known = endpoints.get(row.tenant_id);
    if (known) known.push(listener);
    else endpoints.set(row.tenant_id, [listener]);
  }
  return endpoints;
}

async function insertMessages(
  client: Queryable,
  messages: readonly Message[],
  createdAt: Date,
): Promise<void> {
  const sorted = [...messages].sort(
    (a, b) => compareText(a.signal.tenantId, b.signal.tenantId) || compareText(a.id, b.id),
  );
  await client.query(
    `insert into webhook_messages (tenant_id, message_id, created_at, type, body)
     select tenant_id, message_id, $1::timestamptz, type, convert_to(body, 'UTF8')
       from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as given (tenant_id, message_id, type, body)`,
    [
      createdAt,
      sorted.map(({ signal }) => signal.tenantId),
      sorted.map(({ id }) => id),
      sorted.map(({ signal }) => signal.type),
      sorted.map(({ signal }) => webhookBody(signal.type, signal.timestampMs, signal.data)),
    ],
  );
}

async function insertDeliveries(
  client: Queryable,
  messages: readonly Message[],
  createdAt: Date,
): Promise<number> {
  const deliveries = messages.flatMap(({ id, signal, endpointIds }) =>
    endpointIds.map((endpointId) => ({
      tenantId: signal.tenantId,
      endpointId,
      messageId: id,
      key: signal.orderingKey,
    })),
  );
  // Numbers follow the order of the signals; the rows are then sorted like any bulk statement's.
  const numbers = await takeNumbers(client, deliveries.length);
  const sorted = deliveries
    .map((delivery, index) => ({ ...delivery, seq: numbers[index]! }))
    .sort(
      (a, b) =>
        compareText(a.tenantId, b.tenantId) ||
        compareText(a.endpointId, b.endpointId) ||
        compareSeq(a.seq, b.seq),
    );
  await client.query(
    `insert into webhook_deliveries
       (tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, state, due_at)
     select tenant_id, endpoint_id, $1::timestamptz, message_id, seq, ordering_key, 'pending', $1::timestamptz
       from unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
         as given (tenant_id, endpoint_id, message_id, seq, ordering_key)`,
    [
      createdAt,
      sorted.map(({ tenantId }) => tenantId),
      sorted.map(({ endpointId }) => endpointId),
      sorted.map(({ messageId }) => messageId),
      sorted.map(({ seq }) => seq),
      sorted.map(({ key }) => key),
    ],
  );
  return sorted.length;
}

/** Taken within the transaction, so later than the numbers of every transaction that ended before it. */
async function takeNumbers(client: Queryable, count: number): Promise<bigint[]> {
  const { rows } = await client.query<{ seq: string | bigint }>(
    "select nextval('webhook_delivery_seq') as seq from generate_series(1, $1::int)",
    [count],
  );
  return rows.map(({ seq }) => BigInt(seq)).sort(compareSeq);
}

function compareSeq(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
