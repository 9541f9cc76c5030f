import type { IdGenerator } from '../../shared/ids.ts';
import type { PoolClient } from '../../shared/postgres/pool.ts';
import { insertAttempts } from '../../shared/postgres/webhook-insert-attempts.ts';
import type { PreparedDelivery } from './attempt.ts';
import { concurrencyOf } from './health.ts';
import { ATTEMPTS_MAX, nextAttemptAtMs } from './schedule.ts';
import { countLeased } from './sql/count-leased.ts';
import { type DueDelivery, findDueDeliveries } from './sql/find-due.ts';
import { finishDeliveries } from './sql/finish-deliveries.ts';
import { leaseDeliveries } from './sql/lease.ts';
import type { LockedEndpoint } from './sql/lock-endpoint.ts';
import { parkDeliveries } from './sql/park.ts';
import { type PostponedDelivery, postponeDeliveries } from './sql/postpone.ts';
import { unparkNext } from './sql/unpark.ts';

export interface ClaimOptions {
  readonly nowMs: number;
  readonly nextId: IdGenerator;
  readonly random: () => number;
  /** Deliveries at most. */
  readonly limit: number;
  /** Exchanges an endpoint in good health may have at once, over all dispatchers. */
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly secrets: readonly Uint8Array[];
}

export interface Claimed {
  readonly deliveries: readonly PreparedDelivery[];
  /** Whether more may be due that could be claimed at once. */
  readonly more: boolean;
}

/** Due deliveries that are looked at together: enough to get past many that wait, few enough for a short lock. */
const LOOK_AT = 200;
/** Times that is done in one transaction. */
const LOOKS_MAX = 5;

/** Claims what an endpoint may be sent now. Runs under the endpoint's lock. */
export async function claimDeliveries(
  client: PoolClient,
  endpoint: LockedEndpoint,
  options: ClaimOptions,
): Promise<Claimed> {
  const bound = concurrencyOf(endpoint.health, options.concurrency);
  const leased = await countLeased(client, endpoint, options.nowMs);
  const free = Math.min(options.limit, bound - leased);
  const deliveries: PreparedDelivery[] = [];
  // Where all is taken, the end of an exchange brings the next visit.
  if (free <= 0) return { deliveries, more: false };
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const due = await findDueDeliveries(client, endpoint, {
      nowMs: options.nowMs,
      lastSuccessAtMs: endpoint.health.lastSuccessAtMs,
      limit: LOOK_AT,
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
    if (due.length < LOOK_AT && claimed.length === chosen.length) return { deliveries, more: false };
  }
  return { deliveries, more: true };
}

async function claimChosen(
  client: PoolClient,
  endpoint: LockedEndpoint,
  chosen: readonly DueDelivery[],
  options: ClaimOptions,
): Promise<PreparedDelivery[]> {
  if (chosen.length === 0) return [];
  await recordLost(client, endpoint, chosen, options.nowMs);
  const spent = chosen.filter(({ attempts }) => attempts >= ATTEMPTS_MAX);
  const postponed = chosen.flatMap((delivery) => postpone(delivery, options));
  const others = new Set([...spent, ...postponed].map(({ messageId }) => messageId));
  const wanted = chosen.filter(({ messageId }) => !others.has(messageId));
  const token = options.nextId();
  const leaseUntilMs = options.nowMs + options.leaseMs;
  const leased = await leaseDeliveries(client, endpoint, wanted, { token, untilMs: leaseUntilMs });
  const places = new Map(chosen.map(({ messageId }, place) => [messageId, place]));
  const gone = new Set(leased.map(({ messageId }) => messageId));
  const messageless = wanted.filter(({ messageId }) => !gone.has(messageId));
  await postponeDeliveries(client, endpoint, postponed, options.nowMs);
  await finishDeliveries(client, endpoint, spent, 'failed', options.nowMs);
  await finishDeliveries(client, endpoint, messageless, 'dropped', options.nowMs);
  await unparkNext(client, endpoint, orderingKeys([...spent, ...messageless]));
  return leased
    .sort((a, b) => places.get(a.messageId)! - places.get(b.messageId)!)
    .map((delivery) => ({ ...delivery, token, leaseUntilMs, url: endpoint.url, secrets: options.secrets }));
}

/**
 * Senders are killed for reasons of their own, so the first loss is made good at once, and the second after what a first failed
 * attempt would wait. From the third on a delivery waits longer and longer: it may be what kills them, and if it is not, a bad
 * quarter of an hour must not use up its attempts.
 */
function postpone(delivery: DueDelivery, { nowMs, random }: ClaimOptions): PostponedDelivery[] {
  const { createdAt, messageId, attempts, leaseRanOut } = delivery;
  // The last one ends the delivery instead.
  if (!leaseRanOut || attempts < 2 || attempts >= ATTEMPTS_MAX) return [];
  return [{ createdAt, messageId, dueAtMs: nextAttemptAtMs(attempts - 1, nowMs, random)! }];
}

/** An attempt whose sender never told its result was an attempt all the same. */
async function recordLost(
  client: PoolClient,
  endpoint: LockedEndpoint,
  chosen: readonly DueDelivery[],
  nowMs: number,
): Promise<void> {
  const lost = chosen.filter(({ leaseRanOut }) => leaseRanOut);
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
