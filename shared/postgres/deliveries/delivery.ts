import { epochMs } from '../times.ts';
import { isPausedByOwner } from '../webhook-endpoints.ts';

/** The states of a delivery: in the queue, or ended. */
export const QUEUED_STATES = ['waiting', 'in-flight'] as const;
export const ENDED_STATES = ['delivered', 'failed', 'dropped'] as const;
export const DELIVERY_STATES = [...QUEUED_STATES, ...ENDED_STATES] as const;

export type DeliveryState = (typeof DELIVERY_STATES)[number];

export function isDeliveryState(text: string): text is DeliveryState {
  return (DELIVERY_STATES as readonly string[]).includes(text);
}

/** What identifies a delivery of a tenant. */
export interface DeliveryKey {
  readonly endpointId: string;
  /** The `webhook-id`, which several endpoints may receive. */
  readonly messageId: string;
  /** When the webhook was stored, which determines its week. */
  readonly createdAtMs: number;
}

/** A webhook for one endpoint. */
export interface Delivery extends DeliveryKey {
  /** Null: its message is erased, or its week was dropped. */
  readonly type: string | null;
  readonly state: DeliveryState;
  /** Attempts begun since it was queued last. */
  readonly attempts: number;
  /** The id within which webhooks are ordered; null: none, or erased. */
  readonly orderingKey: string | null;
  /** When the next attempt is due; null: it has ended, is in flight, or waits for an earlier one. */
  readonly dueAtMs: number | null;
  readonly finishedAtMs: number | null;
  /** The state of its endpoint; null: the endpoint has no row. */
  readonly endpointState: 'enabled' | 'disabled' | 'deleted' | null;
  /** The end of the last pause of its endpoint; null: none, or it has ended. */
  readonly pausedUntilMs: number | null;
}

/** What a waiting delivery waits for. */
export const DELIVERY_WAITS = ['earlier-webhook', 'paused', 'retry-after', 'retry'] as const;
export type DeliveryWait = (typeof DELIVERY_WAITS)[number];

/**
 * Begins the ordering key of a delivery that was queued again. Such deliveries keep their order among
 * themselves, and hold no newer ones of their conversation. No id contains the character.
 */
export const AGAIN = '\u001e';

/** Returns the ordering keys of the deliveries of conversations, also of those queued again. */
export function orderingKeysOf(conversations: readonly string[]): string[] {
  return conversations.flatMap((conversation) => [conversation, `${AGAIN}${conversation}`]);
}

/** Returns the id of a delivery, which {@link parseDeliveryId} reads. */
export function deliveryIdOf({ messageId, endpointId, createdAtMs }: DeliveryKey): string {
  return `${messageId}.${endpointId}.${createdAtMs.toString(36)}`;
}

/** Returns what a delivery's id names; undefined if it is not one. */
export function parseDeliveryId(id: string): DeliveryKey | undefined {
  const match = /^([0-9A-Za-z_-]{1,64})\.([0-9A-Za-z_-]{1,64})\.([0-9a-z]{1,9})$/.exec(id);
  if (!match) return undefined;
  const createdAtMs = Number.parseInt(match[3]!, 36);
  return { messageId: match[1]!, endpointId: match[2]!, createdAtMs };
}

/** Returns a delivery as the admin API and commands show it. */
export function describeDelivery(delivery: Delivery, nowMs: number) {
  const { endpointId, messageId, type, state, attempts, orderingKey, finishedAtMs } = delivery;
  const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  return {
    deliveryId: deliveryIdOf(delivery),
    endpointId,
    webhookId: messageId,
    type,
    state,
    waitsFor: waitsFor(delivery, nowMs),
    attempts,
    conversation: orderingKey === null ? null : orderingKey.replace(AGAIN, ''),
    redelivered: orderingKey?.startsWith(AGAIN) ?? false,
    createdAt: time(delivery.createdAtMs),
    nextAttemptAt: time(nextAttemptMs(delivery)),
    finishedAt: time(finishedAtMs),
  };
}

/** Returns why a delivery is not attempted now; null: it is due, in flight, or has ended. */
function waitsFor(delivery: Delivery, nowMs: number): DeliveryWait | null {
  const { state, dueAtMs, pausedUntilMs } = delivery;
  if (state !== 'waiting') return null;
  if (isPausedByOwner(delivery)) return 'paused';
  if (dueAtMs === null) return 'earlier-webhook';
  if (dueAtMs > Math.max(nowMs, pausedUntilMs ?? nowMs)) return 'retry';
  return pausedUntilMs === null ? null : 'retry-after';
}

function nextAttemptMs(delivery: Delivery): number | null {
  const { dueAtMs, pausedUntilMs } = delivery;
  if (dueAtMs === null || isPausedByOwner(delivery)) return null;
  return Math.max(dueAtMs, pausedUntilMs ?? dueAtMs);
}

/** Columns of a delivery in webhook_queue `q`, where `$2` is the current time. */
export const QUEUED_COLUMNS = `q.endpoint_id as "endpointId", q.message_id as "messageId",
  ${epochMs('q.created_at')} as "createdAtMs", q.ordering_key as "orderingKey", q.attempts,
  case when q.lease_token is not null and q.due_at > $2 then 'in-flight' else 'waiting' end as state,
  case when q.parked or (q.lease_token is not null and q.due_at > $2) then null else ${epochMs('q.due_at')} end as "dueAtMs",
  null::numeric as "finishedAtMs"`;

/**
 * Columns of a delivery in webhook_deliveries `q`. A release before the queue may have left waiting
 * ones there.
 */
export const ENDED_COLUMNS = `q.endpoint_id as "endpointId", q.message_id as "messageId",
  ${epochMs('q.created_at')} as "createdAtMs", q.ordering_key as "orderingKey", q.attempts,
  case when q.state = 'pending' then 'waiting' else q.state end as state, null::numeric as "dueAtMs",
  ${epochMs('q.finished_at')} as "finishedAtMs"`;

/** Columns of a delivery in its endpoint `e`, where `$2` is the current time. */
export const ENDPOINT_COLUMNS = `e.state as "endpointState",
  case when e.paused_until > $2 then ${epochMs('e.paused_until')} end as "pausedUntilMs"`;

/** Returns the columns of both, of a subquery with this name. */
export function deliveryColumns(of: string): string {
  return COLUMN_NAMES.map((name) => `${of}.${name}`).join(', ');
}

const COLUMN_NAMES = [
  '"endpointId"',
  '"messageId"',
  '"createdAtMs"',
  '"orderingKey"',
  'attempts',
  'state',
  '"dueAtMs"',
  '"finishedAtMs"',
];
