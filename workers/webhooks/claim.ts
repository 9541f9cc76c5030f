import { runTogether } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { OutgoingEndpoint } from '../../shared/webhooks/outgoing-endpoint.ts';
import type { ClaimedDelivery } from './attempt.ts';
import { sendUntilMs } from './claim-lease.ts';
import { claimedMax } from './health.ts';
import type { EndedDeliveries } from './metrics.ts';
import { type SendTimes, sendTimes } from './rate.ts';
import type { ReadAhead } from './read-ahead.ts';
import { orderingKeys } from './results.ts';
import { attemptsMax, LOST_SCHEDULE, nextAttemptAtMs } from './schedule.ts';
import { type LockedEndpoint, updateNextSends } from './sql/endpoints.ts';
import { finishDeliveries } from './sql/history.ts';
import { parkDeliveries, unparkNext } from './sql/holds.ts';
import {
  countLeasedByOthers,
  type DueDelivery,
  endLostLeases,
  findDueDeliveries,
  findWithoutBody,
  type LeasedBody,
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
  /** Counts the deliveries that end. */
  readonly ended: EndedDeliveries;
}

const LOST_ATTEMPTS_MAX = attemptsMax(LOST_SCHEDULE);

/** An endpoint from which deliveries are claimed. */
export interface EndpointToClaim {
  readonly endpoint: LockedEndpoint;
  readonly outgoing: OutgoingEndpoint;
  readonly readAhead: ReadAhead;
  /** Claimed deliveries that were given back. */
  readonly unsent: readonly ClaimedDelivery[];
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
  /** From when to claim again, if the endpoint's rate permits no claims before. */
  readonly throttledUntilMs: number | undefined;
}

/** An endpoint with what may be claimed of it now. */
interface Timed extends EndpointToClaim {
  /** The times of its next attempts; undefined: it has no rate. */
  readonly times: SendTimes | undefined;
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
  const timed = wanted.map((one) => withTimes(one, options.nowMs));
  const [leasedByOthers] = await runTogether<[LeasedBy, ...unknown[]]>(client, [
    () =>
      countLeasedByOthers(
        client,
        wanted.map(({ endpoint }) => endpoint),
        options,
      ),
    ...timed.map((one) => () => readDue(client, one, options)),
  ]);
  const chosen = timed.map((one) => {
    const { endpoint, readAhead, held, ahead } = one;
    const others = leasedByOthers(endpoint);
    const max = claimedMax(endpoint.health, { concurrency: options.concurrency, ahead, others });
    const count = Math.max(0, Math.min(one.limit, max.claimed - held));
    return { ...one, concurrency: max.exchanges, shared: others > 0, due: readAhead.take(count) };
  });
  const queued = chosen.flatMap(({ endpoint, due }) => due.map((delivery) => queuedOf(endpoint, delivery)));
  const leased =
    queued.length === 0
      ? []
      : await leaseDeliveries(client, queued, {
          token: options.token,
          untilMs: options.nowMs + options.leaseMs,
        });
  const bodies = new Map(leased.map((one) => [idOf(one), one]));
  if (leased.length < queued.length) await dropWithoutBody(client, wanted, queued, bodies, options);
  const claims = chosen.map((one) => {
    const { concurrency, shared, times } = one;
    const deliveries = claimedOf(one, bodies, options);
    return { deliveries, concurrency, shared, throttledUntilMs: times?.waitUntilMs(deliveries.length) };
  });
  const nextSends = chosen.flatMap(({ endpoint, times }, index) => {
    const claimed = claims[index]!.deliveries.length;
    return times && claimed > 0 ? [{ ...idsOf(endpoint), nextSendAtMs: times.after(claimed) }] : [];
  });
  await updateNextSends(client, nextSends);
  return claims;
}

/** Limits what is claimed to the attempts that the endpoint's rate permits soon. */
function withTimes(wanted: EndpointToClaim, nowMs: number): Timed {
  const { rate } = wanted.endpoint;
  if (rate === null) return { ...wanted, times: undefined };
  const times = sendTimes(
    rate,
    wanted.unsent.map(({ sendAtMs }) => sendAtMs),
    nowMs,
  );
  return { ...wanted, limit: Math.min(wanted.limit, times.count), times };
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
        (leaseExpired || attempts >= LOST_ATTEMPTS_MAX) && !isClaimed(messageId),
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
  const spent = lost.filter(({ attempts }) => attempts >= LOST_ATTEMPTS_MAX);
  const others = lost.filter(({ attempts }) => attempts < LOST_ATTEMPTS_MAX);
  await endLostLeases(
    client,
    endpoint,
    others.map((delivery) => retryOf(delivery, options)),
    nowMs,
  );
  await finishDeliveries(client, endpoint, spent, 'failed', nowMs);
  options.ended.failed += spent.length;
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
  return { messageId, dueAtMs: nextAttemptAtMs(LOST_SCHEDULE, attempts - 1, nowMs, random)!, failed: true };
}

/** Drops the deliveries that could not be leased because they have no body. */
async function dropWithoutBody(
  client: Queryable,
  wanted: readonly EndpointToClaim[],
  queued: readonly Chosen[],
  bodies: ReadonlyMap<string, LeasedBody>,
  { nowMs, ended }: ClaimOptions,
): Promise<void> {
  const skipped = queued.filter((delivery) => !bodies.has(idOf(delivery)));
  const withoutBody = new Set((await findWithoutBody(client, skipped)).map(idOf));
  for (const { endpoint, readAhead } of wanted) {
    const own = skipped.filter((one) => withoutBody.has(idOf(one)) && one.endpointId === endpoint.endpointId);
    await finishDeliveries(client, endpoint, own, 'dropped', nowMs);
    ended.dropped += own.length;
    await unparkNext(client, endpoint, orderingKeys(own));
    if (own.length > 0) readAhead.restart();
  }
}

function queuedOf(endpoint: LockedEndpoint, delivery: DueDelivery): Chosen {
  return { ...idsOf(endpoint), ...delivery };
}

function idsOf({ tenantId, endpointId }: EndpointId): EndpointId {
  return { tenantId, endpointId };
}

function idOf({
  tenantId,
  endpointId,
  messageId,
}: Pick<QueuedDelivery, 'tenantId' | 'endpointId' | 'messageId'>) {
  return `${messageId} ${endpointId} ${tenantId}`;
}

/** Returns the deliveries that were leased, with what they are sent with. */
function claimedOf(
  { endpoint, outgoing, readAhead, times, due }: Timed & { readonly due: readonly DueDelivery[] },
  bodies: ReadonlyMap<string, LeasedBody>,
  { token, nowMs, leaseMs }: ClaimOptions,
): ClaimedDelivery[] {
  const claimed: ClaimedDelivery[] = [];
  for (const delivery of due) {
    const leased = bodies.get(idOf(queuedOf(endpoint, delivery)));
    if (leased === undefined) {
      readAhead.resolve(delivery, false);
      continue;
    }
    const sendAtMs = times?.at(claimed.length) ?? nowMs;
    const attempt = delivery.attempts + 1;
    const { url, resumedAtMs } = endpoint;
    const { body, traceparent } = leased;
    const lease = { token, sendUntilMs: sendUntilMs(nowMs, leaseMs), sendAtMs };
    claimed.push({ ...delivery, attempt, body, traceparent, ...lease, url, resumedAtMs, ...outgoing });
  }
  return claimed;
}
