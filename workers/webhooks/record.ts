import type { IdGenerator } from '../../shared/ids.ts';
import type { PoolClient } from '../../shared/postgres/pool.ts';
import { insertAttempts } from '../../shared/postgres/webhook-insert-attempts.ts';
import { insertSignals, type Signal } from '../sql/insert-signals.ts';
import type { Attempt } from './attempt.ts';
import { healthAfter } from './health.ts';
import { nextAttemptAtMs } from './schedule.ts';
import { findSomeListeners } from './sql/find-listeners.ts';
import type { EndpointHealth, LockedEndpoint } from './sql/lock-endpoint.ts';
import { type DeliveryResult, recordResults } from './sql/record-results.ts';
import { unparkNext } from './sql/unpark.ts';
import { updateEndpointHealth } from './sql/update-health.ts';

/**
 * Endpoints that are sent `webhook.endpoint_disabled` at most. Where thousands of a tenant's are disabled, each sending to
 * all the others would be millions of deliveries.
 */
const DISABLED_TOLD_MAX = 20;

export interface RecordOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
  readonly random: () => number;
}

/**
 * Stores what came of attempts: the deliveries, the log of attempts, how the endpoint is doing, and the signal to up to
 * 20 other endpoints of the tenant when it is disabled. An attempt whose lease is gone counts for nothing, as its delivery was
 * given to another sender or ended. Runs under the endpoint's lock; resolves with its health afterwards.
 */
export async function recordAttempts(
  client: PoolClient,
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
    const signal = disabledSignal(endpoint, health, options.nowMs);
    const endpointIds = await findSomeListeners(client, signal.tenantId, signal.type, DISABLED_TOLD_MAX);
    await insertSignals(client, [signal], { ...options, endpointIds });
  }
  return health;
}

function resultOf({ delivery, outcome, finishedAtMs }: Attempt, random: () => number): DeliveryResult {
  const { createdAt, messageId, token, attempt } = delivery;
  const ended = { createdAt, messageId, token, finishedAtMs, dueAtMs: finishedAtMs };
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

function disabledSignal(endpoint: LockedEndpoint, health: EndpointHealth, nowMs: number): Signal {
  return {
    tenantId: endpoint.tenantId,
    type: 'webhook.endpoint_disabled',
    orderingKey: null,
    timestampMs: nowMs,
    data: { endpointId: endpoint.endpointId, url: endpoint.url, reason: health.disabledReason },
  };
}
