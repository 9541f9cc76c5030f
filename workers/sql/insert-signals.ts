import { compareText } from '../../shared/compare-text.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { type WebhookType, webhookBody } from '../../shared/contracts/webhooks.ts';
import { AppError, BATCH_BOUND_EXCEEDED } from '../../shared/errors.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

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
  /** The only endpoints that may get them. Default: all of the tenant that want the type. */
  readonly endpointIds?: readonly string[];
}

/** Deliveries that one transaction writes at most, unless a single signal has more. */
export const DELIVERIES_MAX = 10_000;

interface Message {
  readonly id: string;
  readonly signal: Signal;
  /** Place among the messages of the transaction. */
  readonly ordinal: number;
}

/**
 * Writes a message for each signal that somebody listens to and a delivery for each endpoint of the tenant that wants
 * its type; resolves with the number of deliveries. Runs inside the transaction that stores what is signalled, so that
 * a signal exists exactly when its record does. The transaction must be the only one that writes signals of these
 * ordering keys at the time (a worker's batch, which holds its partition's position, is).
 *
 * Throws AppError `BATCH_BOUND_EXCEEDED`, with nothing written, where several signals would make more than 10,000
 * deliveries: fewer at a time succeed. A single signal is always written, by the server alone.
 */
export async function insertSignals(
  client: Queryable,
  signals: readonly Signal[],
  options: InsertSignalsOptions,
): Promise<number> {
  if (signals.length === 0) return 0;
  const endpointIds = options.endpointIds ?? null;
  const countListeners = await findListeners(client, signals, endpointIds);
  const messages: Message[] = [];
  let deliveries = 0;
  for (const signal of signals) {
    const listeners = countListeners(signal);
    if (listeners === 0) continue;
    deliveries += listeners;
    messages.push({ id: options.nextId(), signal, ordinal: messages.length });
  }
  if (messages.length === 0) return 0;
  if (deliveries > DELIVERIES_MAX && messages.length > 1) {
    throw new AppError(
      BATCH_BOUND_EXCEEDED,
      `${messages.length} signals have ${deliveries} webhook deliveries, and one transaction writes at most ${DELIVERIES_MAX}`,
    );
  }
  const createdAt = new Date(options.nowMs);
  await insertMessages(client, messages, createdAt);
  const inserted = await insertDeliveries(client, messages, createdAt, endpointIds);
  // One for all: a notification takes a lock at commit that all notifying transactions share.
  await client.query('select pg_notify($1, $2)', [DELIVERIES_CHANNEL, '']);
  return inserted;
}

/** Resolves with what counts the endpoints that want a signal. */
async function findListeners(
  client: Queryable,
  signals: readonly Signal[],
  endpointIds: readonly string[] | null,
): Promise<(signal: Signal) => number> {
  // Counted by the server: a tenant may have thousands, of few different kinds.
  const { rows } = await client.query<{
    tenant_id: string;
    event_types: string[] | null;
    endpoints: number;
  }>(
    `select tenant_id, event_types, count(*)::integer as endpoints
       from webhook_endpoints
      where tenant_id = any($1::text[]) and state = 'enabled' and state <> 'deleted'
        and ($2::text[] is null or endpoint_id = any($2::text[]))
      group by tenant_id, event_types`,
    [[...new Set(signals.map((signal) => signal.tenantId))].sort(), endpointIds],
  );
  const counts = new Map<string, number>();
  return ({ tenantId, type }) => {
    // Neither a type nor a tenant's id holds a space.
    const key = `${type} ${tenantId}`;
    const known = counts.get(key);
    if (known !== undefined) return known;
    const count = rows
      .filter((row) => row.tenant_id === tenantId && (row.event_types?.includes(type) ?? true))
      .reduce((sum, row) => sum + row.endpoints, 0);
    counts.set(key, count);
    return count;
  };
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
      await mapInSlices(sorted, ({ signal }) => webhookBody(signal.type, signal.timestampMs, signal.data)),
    ],
  );
}

/**
 * The server makes the deliveries, of messages × endpoints, in the order of the messages.
 *
 * Their numbers are a base, taken once from the sequence, plus the message's ordinal. The sequence steps by 2^20, which
 * no ordinal reaches (see DELIVERIES_MAX), so the numbers of two transactions never overlap, however they interleave. A
 * conversation has one writer at a time, who takes the base within its transaction: it is higher than those of all
 * transactions that wrote for the conversation before, as these have ended.
 */
async function insertDeliveries(
  client: Queryable,
  messages: readonly Message[],
  createdAt: Date,
  endpointIds: readonly string[] | null,
): Promise<number> {
  const { rows } = await client.query<{ base: string | bigint }>(
    "select nextval('webhook_delivery_seq') as base",
  );
  const { rowCount } = await client.query(
    `insert into webhook_queue
       (tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at)
     select m.tenant_id, e.endpoint_id, m.message_id, $1::timestamptz, $2::bigint + m.ordinal, m.ordering_key,
            $1::timestamptz
       from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::integer[])
         as m (tenant_id, message_id, type, ordering_key, ordinal)
       join webhook_endpoints e
         on e.tenant_id = m.tenant_id and e.state = 'enabled' and e.state <> 'deleted'
        and (e.event_types is null or m.type = any(e.event_types))
        and ($8::text[] is null or e.endpoint_id = any($8::text[]))
      order by m.tenant_id, e.endpoint_id, m.ordinal`,
    [
      createdAt,
      rows[0]!.base,
      messages.map(({ signal }) => signal.tenantId),
      messages.map(({ id }) => id),
      messages.map(({ signal }) => signal.type),
      messages.map(({ signal }) => signal.orderingKey),
      messages.map(({ ordinal }) => ordinal),
      endpointIds,
    ],
  );
  return rowCount ?? 0;
}
