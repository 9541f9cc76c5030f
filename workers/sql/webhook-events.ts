import { compareText } from '../../shared/compare-text.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { validTraceparent } from '../../shared/contracts/traceparent.ts';
import { type StoredFilters, selectsType } from '../../shared/contracts/webhook-filters.ts';
import { type WebhookType, webhookBody } from '../../shared/contracts/webhooks.ts';
import { AppError, BATCH_BOUND_EXCEEDED } from '../../shared/errors.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { runTogether, withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import { DELIVERIES_CHANNEL, payloadOf } from '../../shared/postgres/webhook-notifications.ts';

/** An event that a tenant's webhook endpoints may subscribe to. */
export interface WebhookEvent {
  readonly tenantId: string;
  readonly type: WebhookType;
  /**
   * Events with the same key are delivered to an endpoint in the order in which they were written;
   * null: unordered.
   */
  readonly orderingKey: string | null;
  readonly timestampMs: number;
  /** W3C trace context of the record that caused the event. Not stored if it is invalid. */
  readonly traceparent?: string | undefined;
  readonly data: JsonObject;
}

export interface InsertWebhookEventsOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
  /**
   * The only endpoints that may receive the event. Default: all endpoints of the tenant that
   * subscribe to the type.
   */
  readonly endpointIds?: readonly string[];
}

/** Maximum number of deliveries that one transaction writes, unless a single event has more. */
const DELIVERIES_MAX = 10_000;

interface Message {
  readonly id: string;
  readonly event: WebhookEvent;
  /** Index among the messages of the transaction. */
  readonly ordinal: number;
}

/**
 * Writes a message for each event with subscribers, and a delivery for each subscriber. Resolves
 * with the number of deliveries. Runs in the transaction that stores the event's record, so that
 * the event exists exactly if the record does.
 *
 * No other transaction may concurrently write events of these ordering keys. A worker's batch
 * satisfies this, because the batch locks its partition's position. Throws AppError
 * `BATCH_BOUND_EXCEEDED`, with nothing written, if several events together have more than 10,000
 * deliveries; fewer events may succeed. A single event is always written, as one statement on the
 * server.
 */
export async function insertWebhookEvents(
  client: Queryable,
  events: readonly WebhookEvent[],
  options: InsertWebhookEventsOptions,
): Promise<number> {
  if (events.length === 0) return 0;
  const endpointIds = options.endpointIds ?? null;
  const [subscribersOf, baseNumber] = await runTogether<[SubscribersOf, bigint]>(client, [
    () => findSubscribers(client, events, endpointIds),
    () => nextBaseNumber(client),
  ]);
  const messages: Message[] = [];
  const subscribers = new Set<Subscribers>();
  let deliveries = 0;
  for (const event of events) {
    let isSent = false;
    for (const group of subscribersOf(event)) {
      isSent = true;
      subscribers.add(group);
      deliveries += group.endpoints;
    }
    if (isSent) messages.push({ id: options.nextId(), event, ordinal: messages.length });
  }
  if (messages.length === 0) return 0;
  if (deliveries > DELIVERIES_MAX && messages.length > 1) {
    throw new AppError(
      BATCH_BOUND_EXCEEDED,
      `${messages.length} webhook events have ${deliveries} deliveries, and one transaction writes at most ${DELIVERIES_MAX}`,
    );
  }
  await insertMessages(client, messages, options.nowMs);
  await insertDeliveries(client, messages, baseNumber, options.nowMs, endpointIds);
  // One notification for all deliveries. At commit, the notification takes a lock for which all
  // notifying transactions compete.
  await withoutAnswer(client).query('select pg_notify($1, $2)', [
    DELIVERIES_CHANNEL,
    payloadOf(namedEndpoints([...subscribers])),
  ]);
  return deliveries;
}

/** Endpoints of a group that are read to be named: more than fit in a payload. */
const NAMED_MAX = 100;

/** Returns the endpoints of new deliveries; none if there are too many to name them. */
function namedEndpoints(subscribers: readonly Subscribers[]): EndpointId[] | undefined {
  if (subscribers.some(({ endpoints }) => endpoints > NAMED_MAX)) return undefined;
  return subscribers.flatMap(({ tenantId, endpointIds }) =>
    endpointIds.map((endpointId) => ({ tenantId, endpointId })),
  );
}

/** The endpoints of a tenant that subscribe to the same types. */
interface Subscribers extends StoredFilters {
  readonly tenantId: string;
  /** Number of the endpoints. */
  readonly endpoints: number;
  /** The ids of some of the endpoints: of all, unless there are many. */
  readonly endpointIds: readonly string[];
}

/** Returns the subscribers of an event. */
type SubscribersOf = (event: WebhookEvent) => readonly Subscribers[];

async function findSubscribers(
  client: Queryable,
  events: readonly WebhookEvent[],
  endpointIds: readonly string[] | null,
): Promise<SubscribersOf> {
  // Counted by the server, because a tenant may have thousands of endpoints with few different
  // lists of types.
  const { rows } = await client.query<Subscribers>(
    `select tenant_id as "tenantId", event_types as "eventTypes", event_filters as "eventFilters",
            count(*)::integer as endpoints,
            (array_agg(endpoint_id))[1:${NAMED_MAX}] as "endpointIds"
       from webhook_endpoints
      where tenant_id = any($1::text[]) and state = 'enabled' and state <> 'deleted'
        and ($2::text[] is null or endpoint_id = any($2::text[]))
      group by tenant_id, event_types, event_filters`,
    [[...new Set(events.map((event) => event.tenantId))].sort(), endpointIds],
  );
  const found = new Map<string, Subscribers[]>();
  return ({ tenantId, type }) => {
    // Neither types nor tenant ids contain a space.
    const key = `${type} ${tenantId}`;
    const known = found.get(key);
    if (known) return known;
    const subscribers = rows.filter((row) => row.tenantId === tenantId && selectsType(row, type));
    found.set(key, subscribers);
    return subscribers;
  };
}

async function insertMessages(
  client: Queryable,
  messages: readonly Message[],
  createdAtMs: number,
): Promise<void> {
  const sorted = [...messages].sort(
    (a, b) => compareText(a.event.tenantId, b.event.tenantId) || compareText(a.id, b.id),
  );
  const rows = await mapInSlices(sorted, ({ id, event }) => ({
    id,
    event,
    body: webhookBody(event.type, event.timestampMs, event.data),
  }));
  const columns: Column<(typeof rows)[number]>[] = [
    { name: 'tenant_id', type: 'text', value: ({ event }) => event.tenantId },
    { name: 'message_id', type: 'text', value: ({ id }) => id },
    { name: 'created_at', type: 'timestamptz', same: createdAtMs },
    { name: 'type', type: 'text', value: ({ event }) => event.type },
    { name: 'body', type: 'utf8', value: ({ body }) => body },
    {
      name: 'traceparent',
      type: 'text',
      value: ({ event }) => validTraceparent(event.traceparent) ?? null,
    },
  ];
  await insertRows(withoutAnswer(client), 'webhook_messages', columns, rows);
}

/**
 * Takes the base of the deliveries' numbers from the sequence. The sequence steps by 2^20, which no
 * ordinal reaches (see DELIVERIES_MAX), so the numbers of concurrent transactions never overlap. A
 * conversation has one writer at a time, which takes the base in its transaction. So the base is
 * higher than all numbers of earlier transactions of the conversation, which have ended.
 */
async function nextBaseNumber(client: Queryable): Promise<bigint> {
  const { rows } = await client.query<{ base: bigint }>("select nextval('webhook_delivery_seq') as base");
  return rows[0]!.base;
}

/**
 * Writes a delivery per message and subscribed endpoint, in the order of the messages, as one
 * statement. A delivery's number is the base plus the message's ordinal.
 */
async function insertDeliveries(
  client: Queryable,
  messages: readonly Message[],
  baseNumber: bigint,
  createdAtMs: number,
  endpointIds: readonly string[] | null,
): Promise<void> {
  await withoutAnswer(client).query(
    `insert into webhook_queue
       (tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at)
     select m.tenant_id, e.endpoint_id, m.message_id, $1::timestamptz, $2::bigint + m.ordinal, m.ordering_key,
            $1::timestamptz
       from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::integer[])
         as m (tenant_id, message_id, type, ordering_key, ordinal)
       join webhook_endpoints e
         on e.tenant_id = m.tenant_id and e.state = 'enabled' and e.state <> 'deleted'
        and (e.event_types is null or m.type = any(e.event_types)
             or split_part(m.type, '.', 1) || '.*' = any(e.event_filters))
        and ($8::text[] is null or e.endpoint_id = any($8::text[]))
      order by m.tenant_id, e.endpoint_id, m.ordinal`,
    [
      new Date(createdAtMs),
      baseNumber,
      messages.map(({ event }) => event.tenantId),
      messages.map(({ id }) => id),
      messages.map(({ event }) => event.type),
      messages.map(({ event }) => event.orderingKey),
      messages.map(({ ordinal }) => ordinal),
      endpointIds,
    ],
  );
}
