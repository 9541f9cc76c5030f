import { compareText } from '../../shared/compare-text.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { attemptPartsOf } from '../../shared/webhooks/exchange.ts';
import { insertWebhookEvents, type WebhookEvent } from '../sql/webhook-events.ts';
import type { Attempt } from './attempt.ts';
import { healthAfter } from './health.ts';
import type { EndedDeliveries } from './metrics.ts';
import { attemptsMax, nextAttemptAtMs } from './schedule.ts';
import {
  type EndpointHealth,
  findSubscribers,
  type LockedEndpoint,
  updateEndpointHealth,
} from './sql/endpoints.ts';
import { unparkNext } from './sql/holds.ts';
import { type DeliveryResult, type Recorded, recordResults } from './sql/results.ts';

/**
 * Maximum number of endpoints that receive a `webhook.endpoint_disabled` event. Without a limit, a
 * tenant with thousands of endpoints that are disabled together would cause millions of deliveries.
 */
const DISABLED_RECEIVERS_MAX = 20;
/**
 * The time of the last success of a healthy endpoint is stored when it is this much later than the
 * stored one, so that not every success changes the endpoint's row.
 */
const SUCCESS_STORED_EVERY_MS = 1000;

export interface RecordOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
  readonly random: () => number;
  /** Counts the deliveries that end. */
  readonly ended: EndedDeliveries;
}

/** Attempts at a locked endpoint. */
export interface EndpointAttempts {
  readonly endpoint: LockedEndpoint;
  readonly attempts: readonly Attempt[];
}

/** What was stored of an endpoint's attempts. */
export interface RecordedAttempts {
  readonly health: EndpointHealth;
  /** Ids of deliveries that have ended. */
  readonly ended: ReadonlySet<string>;
  /** Whether deliveries are due again that may precede what was read ahead. */
  readonly restarted: boolean;
}

/**
 * Stores the results of attempts at any number of endpoints: the deliveries' states, the log of
 * attempts, and the endpoints' health. If that disables an endpoint, writes an event to other
 * endpoints of the tenant. Ignores an attempt whose lease is lost, because its delivery was claimed
 * again or has ended. An attempt at an earlier URL, or from before the owner resumed or enabled the
 * endpoint, does not change the health. Runs under the endpoints' locks. Resolves with what was stored,
 * in the order of `given`.
 */
export async function recordAttempts(
  client: Queryable,
  given: readonly EndpointAttempts[],
  options: RecordOptions,
): Promise<RecordedAttempts[]> {
  const results = given.flatMap(({ endpoint, attempts }) =>
    attempts.map((attempt) => resultOf(endpoint, attempt, options.random)),
  );
  const recorded = results.length > 0 ? await recordResults(client, results) : [];
  const stored: RecordedAttempts[] = [];
  for (const { endpoint, attempts } of given) {
    const own = recorded.filter((one) => isOf(endpoint, one));
    stored.push(await finishRecording(client, endpoint, attempts, own, options));
  }
  return stored;
}

async function finishRecording(
  client: Queryable,
  endpoint: LockedEndpoint,
  attempts: readonly Attempt[],
  recorded: readonly Recorded[],
  options: RecordOptions,
): Promise<RecordedAttempts> {
  const byId = new Map(recorded.map((one) => [one.messageId, one]));
  const counted = attempts.filter(({ delivery }) => byId.has(delivery.messageId));
  if (counted.length === 0) return { health: endpoint.health, ended: new Set(), restarted: false };
  const last = counted.filter((attempt) => hasEnded(endpoint, attempt));
  for (const { outcome } of last) options.ended[outcome.kind] += 1;
  const ended = new Set(last.map(({ delivery }) => delivery.messageId));
  const keys = recorded.filter(({ parked, messageId }) => parked && ended.has(messageId));
  await unparkNext(client, endpoint, orderingKeys(keys));
  const current = counted.filter((attempt) => isCurrent(endpoint, attempt));
  const restarted = keys.length > 0 || current.length < counted.length;
  if (current.length === 0) return { health: endpoint.health, ended, restarted };
  const health = healthAfter(endpoint.health, current);
  if (mustStore(endpoint.health, health)) await updateEndpointHealth(client, endpoint, health, options.nowMs);
  if (endpoint.health.state === 'enabled' && health.state === 'disabled') {
    const event = disabledEvent(endpoint, health, options.nowMs);
    const endpointIds = await findSubscribers(client, event.tenantId, event.type, DISABLED_RECEIVERS_MAX);
    await insertWebhookEvents(client, [event], { ...options, endpointIds });
  }
  return { health, ended, restarted };
}

/** Returns whether the health has changed by more than the time of the last success. */
function mustStore(before: EndpointHealth, after: EndpointHealth): boolean {
  if (before.failures > 0 || after.failures > 0 || before.lastSuccessAtMs === null) return true;
  return after.lastSuccessAtMs! - before.lastSuccessAtMs >= SUCCESS_STORED_EVERY_MS;
}

function isOf(endpoint: LockedEndpoint, { tenantId, endpointId }: Recorded): boolean {
  return endpoint.endpointId === endpointId && endpoint.tenantId === tenantId;
}

/**
 * Returns whether an attempt says something about the endpoint as it is now. The claim is compared,
 * not times, because clocks of processes differ.
 */
function isCurrent({ url, resumedAtMs }: LockedEndpoint, { delivery }: Attempt): boolean {
  return delivery.url === url && delivery.resumedAtMs === resumedAtMs;
}

function hasEnded(endpoint: LockedEndpoint, attempt: Attempt): boolean {
  const { delivery, outcome } = attempt;
  if (outcome.kind === 'delivered' || delivery.attempt >= attemptsMax(endpoint.retrySchedule)) return true;
  return outcome.gone && isCurrent(endpoint, attempt);
}

/** Returns when the next attempt is due: now if the last one was not at the endpoint as it is now. */
function retryAtMs(endpoint: LockedEndpoint, attempt: Attempt, random: () => number): number | undefined {
  const { delivery, finishedAtMs } = attempt;
  if (!isCurrent(endpoint, attempt)) return finishedAtMs;
  return nextAttemptAtMs(endpoint.retrySchedule, delivery.attempt, finishedAtMs, random);
}

function resultOf(endpoint: LockedEndpoint, attempt: Attempt, random: () => number): DeliveryResult {
  const { delivery, outcome, startedAtMs, finishedAtMs } = attempt;
  const dueAtMs = hasEnded(endpoint, attempt) ? undefined : retryAtMs(endpoint, attempt, random);
  return {
    tenantId: endpoint.tenantId,
    endpointId: endpoint.endpointId,
    messageId: delivery.messageId,
    token: delivery.token,
    state: outcome.kind === 'delivered' ? 'delivered' : dueAtMs === undefined ? 'failed' : 'pending',
    dueAtMs: dueAtMs ?? finishedAtMs,
    attempt: delivery.attempt,
    createdAtMs: finishedAtMs,
    durationMs: finishedAtMs - startedAtMs,
    status: outcome.status ?? null,
    error: outcome.kind === 'failed' ? outcome.error : null,
    answer: outcome.answer ?? null,
    ...attemptPartsOf(attempt),
  };
}

/** Returns the conversations of deliveries, sorted. */
export function orderingKeys(deliveries: readonly { readonly orderingKey: string | null }[]): string[] {
  const keys = deliveries.map(({ orderingKey }) => orderingKey).filter((key) => key !== null);
  return [...new Set(keys)].sort(compareText);
}

function disabledEvent(endpoint: LockedEndpoint, health: EndpointHealth, nowMs: number): WebhookEvent {
  return {
    tenantId: endpoint.tenantId,
    type: 'webhook.endpoint_disabled',
    orderingKey: null,
    timestampMs: nowMs,
    data: { endpointId: endpoint.endpointId, url: endpoint.url, reason: health.disabledReason },
  };
}
