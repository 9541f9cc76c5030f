import type { IdGenerator } from '../../shared/ids.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import type { PreparedDelivery } from './attempt.ts';
import { concurrencyOf } from './health.ts';
import { ATTEMPTS_MAX, nextAttemptAtMs } from './schedule.ts';
import type { LockedEndpoint } from './sql/endpoints.ts';
import { finishDeliveries } from './sql/history.ts';
import { parkDeliveries, unparkNext } from './sql/holds.ts';
import {
  countLeased,
  type DueDelivery,
  findDueDeliveries,
  leaseDeliveries,
  type PostponedDelivery,
  postponeDeliveries,
} from './sql/queue.ts';

export interface ClaimOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
  readonly random: () => number;
  /** Maximum number of deliveries to claim. */
  readonly limit: number;
  /** Concurrent exchanges of a healthy endpoint, in all dispatchers together. */
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly secrets: readonly Uint8Array[];
}

export interface Claimed {
  readonly deliveries: readonly PreparedDelivery[];
  /** Whether more due deliveries may be available immediately. */
  readonly more: boolean;
}

/**
 * Due deliveries that are read per query: enough to pass many held deliveries, but few enough for a
 * short lock.
 */
const DUE_PAGE = 200;
/** Pages per transaction. */
const PAGES_MAX = 5;

/**
 * Leases due deliveries that may be sent now. Parks deliveries that are held by an earlier delivery
 * of their conversation. Runs under the endpoint's lock.
 */
export async function claimDeliveries(
  client: Queryable,
  endpoint: LockedEndpoint,
  options: ClaimOptions,
): Promise<Claimed> {
  const bound = concurrencyOf(endpoint.health, options.concurrency);
  const leased = await countLeased(client, endpoint, options.nowMs);
  const free = Math.min(options.limit, bound - leased);
  const deliveries: PreparedDelivery[] = [];
  // The end of an exchange in flight triggers the next dispatch.
  if (free <= 0) return { deliveries, more: false };
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const due = await findDueDeliveries(client, endpoint, {
      nowMs: options.nowMs,
      lastSuccessAtMs: endpoint.health.lastSuccessAtMs,
      limit: DUE_PAGE,
    });
    await parkDeliveries(
      client,
      endpoint,
      due.filter(({ held }) => held),
    );
    const ready = due.filter(({ held }) => !held);
    const chosen = ready.slice(0, free - deliveries.length);
    const claimed = await claimChosen(client, endpoint, chosen, options);
    deliveries.push(...claimed);
    if (ready.length > chosen.length || deliveries.length === free) break;
    if (due.length < DUE_PAGE && claimed.length === chosen.length) return { deliveries, more: false };
  }
  return { deliveries, more: true };
}

async function claimChosen(
  client: Queryable,
  endpoint: LockedEndpoint,
  chosen: readonly DueDelivery[],
  options: ClaimOptions,
): Promise<PreparedDelivery[]> {
  if (chosen.length === 0) return [];
  await recordLostAttempts(client, endpoint, chosen, options.nowMs);
  const spent = chosen.filter(({ attempts }) => attempts >= ATTEMPTS_MAX);
  const postponed = chosen.flatMap((delivery) => postpone(delivery, options));
  const others = new Set([...spent, ...postponed].map(({ messageId }) => messageId));
  const wanted = chosen.filter(({ messageId }) => !others.has(messageId));
  const token = options.nextId();
  const leaseUntilMs = options.nowMs + options.leaseMs;
  const leased = await leaseDeliveries(client, endpoint, wanted, { token, untilMs: leaseUntilMs });
  const order = new Map(chosen.map(({ messageId }, index) => [messageId, index]));
  const leasedIds = new Set(leased.map(({ messageId }) => messageId));
  const withoutBody = wanted.filter(({ messageId }) => !leasedIds.has(messageId));
  await postponeDeliveries(client, endpoint, postponed, options.nowMs);
  await finishDeliveries(client, endpoint, spent, 'failed', options.nowMs);
  await finishDeliveries(client, endpoint, withoutBody, 'dropped', options.nowMs);
  await unparkNext(client, endpoint, orderingKeys([...spent, ...withoutBody]));
  return leased
    .sort((a, b) => order.get(a.messageId)! - order.get(b.messageId)!)
    .map((delivery) => ({ ...delivery, token, leaseUntilMs, url: endpoint.url, secrets: options.secrets }));
}

/**
 * Returns when to retry a delivery whose lease expired without a result; nothing if the retry is
 * immediate. The first lost attempt is retried immediately, because senders may be killed for other
 * reasons. The second lost attempt waits as long as a first failed attempt, and so on. The delivery
 * may crash its senders, and an outage of minutes must not use up its attempts.
 */
function postpone(delivery: DueDelivery, { nowMs, random }: ClaimOptions): PostponedDelivery[] {
  const { createdAtMs, messageId, attempts, leaseExpired } = delivery;
  // After its last attempt, the delivery fails instead.
  if (!leaseExpired || attempts < 2 || attempts >= ATTEMPTS_MAX) return [];
  return [{ createdAtMs, messageId, dueAtMs: nextAttemptAtMs(attempts - 1, nowMs, random)! }];
}

/** Logs a failed attempt for each delivery whose sender died before recording a result. */
async function recordLostAttempts(
  client: Queryable,
  endpoint: LockedEndpoint,
  chosen: readonly DueDelivery[],
  nowMs: number,
): Promise<void> {
  const lost = chosen.filter(({ leaseExpired }) => leaseExpired);
  await insertAttempts(
    client,
    endpoint,
    lost.map(({ messageId, attempts }) => ({
      messageId,
      attempt: attempts,
      createdAtMs: nowMs,
      durationMs: 0,
      status: null,
      error: 'the sender stopped before it knew the result',
      answer: null,
    })),
  );
}

function orderingKeys(deliveries: readonly DueDelivery[]): string[] {
  const keys = deliveries.map(({ orderingKey }) => orderingKey).filter((key) => key !== null);
  return [...new Set(keys)].sort();
}
