import { runTogether } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import type { ClaimedDelivery } from './attempt.ts';
import { claimedMax } from './health.ts';
import type { ReadAhead } from './read-ahead.ts';
import { orderingKeys } from './results.ts';
import { ATTEMPTS_MAX, nextAttemptAtMs } from './schedule.ts';
import type { LockedEndpoint } from './sql/endpoints.ts';
import { finishDeliveries } from './sql/history.ts';
import { parkDeliveries, unparkNext } from './sql/holds.ts';
import {
  countLeasedByOthers,
  type DueDelivery,
  endLostLeases,
  findDueDeliveries,
  findWithoutBody,
  type LeasedBy,
  leaseDeliveries,
  type QueuedDelivery,
} from './sql/queue.ts';

/** A delivery that is about to be claimed. */
type Chosen = DueDelivery & QueuedDelivery;

export interface ClaimOptions {
  readonly nowMs: number;
  readonly random: () => number;
  /** Concurrent exchanges of a healthy endpoint, in all dispatchers together. */
  readonly concurrency: number;
  /** Milliseconds within which a claimed delivery is sent, or its lease expires. */
  readonly leaseMs: number;
  /** The token of the leases, and the prefix of all tokens of this dispatcher. */
  readonly token: string;
  readonly ownTokens: string;
}

/** An endpoint from which deliveries are claimed. */
export interface EndpointToClaim {
  readonly endpoint: LockedEndpoint;
  readonly secrets: readonly Uint8Array[];
  readonly readAhead: ReadAhead;
  /** Returns whether this dispatcher holds the lease of a delivery. */
  readonly isClaimed: (messageId: string) => boolean;
  /** Number of deliveries that this dispatcher has claimed, and whose result is not stored. */
  readonly held: number;
  /** Maximum number of deliveries to claim. */
  readonly limit: number;
  /** Deliveries that may be claimed beyond the concurrency, to be sent within milliseconds. */
  readonly ahead: number;
}

export interface Claimed {
  readonly deliveries: readonly ClaimedDelivery[];
  /** Concurrent exchanges that this dispatcher may have. */
  readonly concurrency: number;
  /** Whether other dispatchers have claimed deliveries of the endpoint. */
  readonly shared: boolean;
}

/** Pages that are read per endpoint and transaction. */
const PAGES_MAX = 5;

/**
 * Leases due deliveries that may be sent now. Parks deliveries that are held by an earlier delivery
 * of their conversation which is not known here. Runs under the endpoints' locks. Resolves with the
 * claims in the order of `wanted`.
 */
export async function claimDeliveries(
  client: Queryable,
  wanted: readonly EndpointToClaim[],
  options: ClaimOptions,
): Promise<Claimed[]> {
  if (wanted.length === 0) return [];
  const [leasedByOthers] = await runTogether<[LeasedBy, ...unknown[]]>(client, [
    () =>
      countLeasedByOthers(
        client,
        wanted.map(({ endpoint }) => endpoint),
        options,
      ),
    ...wanted.map((one) => () => readDue(client, one, options)),
  ]);
  const chosen = wanted.map((one) => {
    const { endpoint, readAhead, held, ahead } = one;
    const others = leasedByOthers(endpoint);
    const max = claimedMax(endpoint.health, { concurrency: options.concurrency, ahead, others });
    const count = Math.max(0, Math.min(one.limit, max.claimed - held));
    return { ...one, concurrency: max.exchanges, shared: others > 0, due: readAhead.take(count) };
  });
  const queued = chosen.flatMap(({ endpoint, due }) => due.map((delivery) => queuedOf(endpoint, delivery)));
  if (queued.length === 0) {
    return chosen.map(({ concurrency, shared }) => ({ deliveries: [], concurrency, shared }));
  }
  const leased = await leaseDeliveries(client, queued, {
    token: options.token,
    untilMs: options.nowMs + options.leaseMs,
  });
  const bodies = new Map(leased.map((one) => [idOf(one), one.body]));
  if (leased.length < queued.length) await dropWithoutBody(client, wanted, queued, bodies, options.nowMs);
  return chosen.map(({ endpoint, secrets, due, readAhead, concurrency, shared }) => {
    const deliveries: ClaimedDelivery[] = [];
    for (const delivery of due) {
      const body = bodies.get(idOf(queuedOf(endpoint, delivery)));
      if (body === undefined) readAhead.resolve(delivery, false);
      else deliveries.push(claimedOf(endpoint, delivery, body, secrets, options));
    }
    return { deliveries, concurrency, shared };
  });
}

/** Reads due deliveries of an endpoint until enough can be claimed. */
async function readDue(
  client: Queryable,
  { endpoint, readAhead, isClaimed, limit }: EndpointToClaim,
  options: ClaimOptions,
): Promise<void> {
  for (let page = 0; page < PAGES_MAX && readAhead.ready < limit && readAhead.hasUnread; page += 1) {
    const size = readAhead.beginPage(options.nowMs);
    const due = await findDueDeliveries(client, endpoint, {
      nowMs: options.nowMs,
      lastSuccessAtMs: endpoint.health.lastSuccessAtMs,
      after: readAhead.pageEnd,
      limit: size,
    });
    const lost = due.filter(
      ({ leaseExpired, attempts, messageId }) =>
        (leaseExpired || attempts >= ATTEMPTS_MAX) && !isClaimed(messageId),
    );
    if (lost.length > 0) {
      await settleLost(client, endpoint, lost, options);
      readAhead.clear();
    } else {
      await parkDeliveries(client, endpoint, readAhead.add(due, size, isClaimed));
    }
  }
}

/**
 * Logs a failed attempt for each delivery whose sender died before recording a result, and decides
 * when the delivery is due again.
 */
async function settleLost(
  client: Queryable,
  endpoint: LockedEndpoint,
  lost: readonly DueDelivery[],
  options: ClaimOptions,
): Promise<void> {
  const { nowMs } = options;
  await insertAttempts(
    client,
    endpoint,
    lost
      .filter(({ leaseExpired }) => leaseExpired)
      .map(({ messageId, attempts }) => ({
        messageId,
        attempt: attempts,
        createdAtMs: nowMs,
        durationMs: 0,
        status: null,
        error: 'the sender stopped before it knew the result',
        answer: null,
        errorClass: 'sender',
      })),
  );
  const spent = lost.filter(({ attempts }) => attempts >= ATTEMPTS_MAX);
  const others = lost.filter(({ attempts }) => attempts < ATTEMPTS_MAX);
  await endLostLeases(
    client,
    endpoint,
    others.map((delivery) => retryOf(delivery, options)),
    nowMs,
  );
  await finishDeliveries(client, endpoint, spent, 'failed', nowMs);
  await unparkNext(client, endpoint, orderingKeys(spent));
}

/**
 * Returns when to retry a delivery whose lease expired without a result. The first lost attempt is
 * retried immediately, because senders may be killed for other reasons. The second lost attempt
 * waits as long as a first failed attempt, and so on. The delivery may crash its senders, and an
 * outage of minutes must not use up its attempts.
 */
function retryOf({ messageId, attempts, dueAtMs }: DueDelivery, { nowMs, random }: ClaimOptions) {
  if (attempts < 2) return { messageId, dueAtMs, failed: false };
  return { messageId, dueAtMs: nextAttemptAtMs(attempts - 1, nowMs, random)!, failed: true };
}

/** Drops the deliveries that could not be leased because they have no body. */
async function dropWithoutBody(
  client: Queryable,
  wanted: readonly EndpointToClaim[],
  queued: readonly Chosen[],
  bodies: ReadonlyMap<string, Buffer>,
  nowMs: number,
): Promise<void> {
  const skipped = queued.filter((delivery) => !bodies.has(idOf(delivery)));
  const withoutBody = new Set((await findWithoutBody(client, skipped)).map(idOf));
  for (const { endpoint, readAhead } of wanted) {
    const own = skipped.filter((one) => withoutBody.has(idOf(one)) && one.endpointId === endpoint.endpointId);
    await finishDeliveries(client, endpoint, own, 'dropped', nowMs);
    await unparkNext(client, endpoint, orderingKeys(own));
    if (own.length > 0) readAhead.restart();
  }
}

function queuedOf({ tenantId, endpointId }: LockedEndpoint, delivery: DueDelivery): Chosen {
  return { tenantId, endpointId, ...delivery };
}

function idOf({
  tenantId,
  endpointId,
  messageId,
}: Pick<QueuedDelivery, 'tenantId' | 'endpointId' | 'messageId'>) {
  return `${messageId} ${endpointId} ${tenantId}`;
}

function claimedOf(
  { url }: LockedEndpoint,
  delivery: DueDelivery,
  body: Buffer,
  secrets: readonly Uint8Array[],
  { token, nowMs }: ClaimOptions,
): ClaimedDelivery {
  return { ...delivery, attempt: delivery.attempts + 1, body, token, claimedAtMs: nowMs, url, secrets };
}
