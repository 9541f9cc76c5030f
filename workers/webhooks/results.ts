import type { IdGenerator } from '../../shared/ids.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import { insertWebhookEvents, type WebhookEvent } from '../sql/webhook-events.ts';
import type { Attempt } from './attempt.ts';
import { healthAfter } from './health.ts';
import { nextAttemptAtMs } from './schedule.ts';
import {
  type EndpointHealth,
  findSubscribers,
  type LockedEndpoint,
  updateEndpointHealth,
} from './sql/endpoints.ts';
import { unparkNext } from './sql/holds.ts';
import { type DeliveryResult, recordResults } from './sql/results.ts';

/**
 * Maximum number of endpoints that receive a `webhook.endpoint_disabled` event. Without a limit, a
 * tenant with thousands of endpoints that are disabled together would cause millions of deliveries.
 */
const DISABLED_RECEIVERS_MAX = 20;

export interface RecordOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
  readonly random: () => number;
}

/**
 * Stores the results of attempts: the deliveries' states, the log of attempts, and the endpoint's
 * health. If that disables the endpoint, writes an event to other endpoints of the tenant. Ignores
 * an attempt whose lease is lost, because its delivery was claimed again or has ended. Runs under
 * the endpoint's lock; resolves with the endpoint's new health.
 */
export async function recordAttempts(
  client: Queryable,
  endpoint: LockedEndpoint,
  attempts: readonly Attempt[],
  options: RecordOptions,
): Promise<EndpointHealth> {
  const results = attempts.map((attempt) => resultOf(attempt, options.random));
  const keys = await recordResults(client, endpoint, results);
  const counted = attempts.filter(({ delivery }) => keys.has(delivery.messageId));
  if (counted.length === 0) return endpoint.health;
  await insertAttempts(client, endpoint, counted.map(attemptRecord));
  const ended = results.filter(({ state, messageId }) => state !== 'pending' && keys.has(messageId));
  await unparkNext(client, endpoint, keysOf(ended, keys));
  const health = healthAfter(endpoint.health, counted);
  await updateEndpointHealth(client, endpoint, health, options.nowMs);
  if (endpoint.health.state === 'enabled' && health.state === 'disabled') {
    const event = disabledEvent(endpoint, health, options.nowMs);
    const endpointIds = await findSubscribers(client, event.tenantId, event.type, DISABLED_RECEIVERS_MAX);
    await insertWebhookEvents(client, [event], { ...options, endpointIds });
  }
  return health;
}

function resultOf({ delivery, outcome, finishedAtMs }: Attempt, random: () => number): DeliveryResult {
  const { createdAtMs, messageId, token, attempt } = delivery;
  const ended = { createdAtMs, messageId, token, finishedAtMs, dueAtMs: finishedAtMs };
  if (outcome.kind === 'delivered') return { ...ended, state: 'delivered' };
  const dueAtMs = outcome.gone ? undefined : nextAttemptAtMs(attempt, finishedAtMs, random);
  return dueAtMs === undefined ? { ...ended, state: 'failed' } : { ...ended, state: 'pending', dueAtMs };
}

function attemptRecord({ delivery, outcome, startedAtMs, finishedAtMs }: Attempt) {
  return {
    messageId: delivery.messageId,
    attempt: delivery.attempt,
    createdAtMs: finishedAtMs,
    durationMs: finishedAtMs - startedAtMs,
    status: outcome.status ?? null,
    error: outcome.kind === 'failed' ? outcome.error : null,
    answer: outcome.answer ?? null,
  };
}

function keysOf(results: readonly DeliveryResult[], keys: ReadonlyMap<string, string | null>): string[] {
  const found = new Set<string>();
  for (const { messageId } of results) {
    const key = keys.get(messageId);
    if (typeof key === 'string') found.add(key);
  }
  return [...found].sort();
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
