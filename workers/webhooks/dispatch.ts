import type { Clock } from '../../shared/clock.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import { type OutgoingEndpoint, outgoingEndpoint } from '../../shared/webhooks/outgoing-endpoint.ts';
import type { Attempt, ClaimedDelivery } from './attempt.ts';
import { claimDeliveries, type EndpointToClaim } from './claim.ts';
import type { ClaimLease } from './claim-lease.ts';
import { endExpiredHolds } from './expired-holds.ts';
import { concurrencyOf } from './health.ts';
import { countEnded, type EndedDeliveries } from './metrics.ts';
import type { ReadAhead } from './read-ahead.ts';
import { recordAttempts } from './results.ts';
import { backfillQueue, type CreatedBetween } from './sql/backfill-queue.ts';
import { hasEndpoint, type LockedEndpoint, lockEndpoints } from './sql/endpoints.ts';
import { dropWaiting } from './sql/history.ts';
import { extendLeases, giveBack } from './sql/results.ts';

export interface DispatchContext {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly random: () => number;
  readonly keyRing: KeyRing;
  /** Concurrent exchanges of a healthy endpoint, in all dispatchers together. */
  readonly concurrency: number;
  /** After which a claimed delivery is free again if its dispatcher died. */
  readonly claimLease: ClaimLease;
  /** The lease of a delivery that has been in flight for a while. */
  readonly leaseMs: number;
  /** The prefix of the tokens of this dispatcher's leases. */
  readonly ownTokens: string;
}

/** The work of one dispatch for one endpoint. */
export interface EndpointWork {
  readonly id: EndpointId;
  /** Attempts whose results are to be recorded. */
  readonly attempts: readonly Attempt[];
  /** Claimed deliveries that are given back. */
  readonly unsent: readonly ClaimedDelivery[];
  /** Deliveries that have been in flight for a while, whose leases are extended. */
  readonly slow: readonly ClaimedDelivery[];
  /** Maximum number of deliveries to claim. */
  readonly limit: number;
  /** Number of claimed deliveries in addition to `attempts` and `unsent`. */
  readonly held: number;
  /** Deliveries that may be claimed beyond the concurrency, to be sent within milliseconds. */
  readonly ahead: number;
  /** Whether `limit` is that of an endpoint whose last attempt failed. */
  readonly failing: boolean;
  readonly readAhead: ReadAhead;
  /** Returns whether this dispatcher holds the lease of a delivery. */
  readonly isClaimed: (messageId: string) => boolean;
  /** Whether a hold may have lasted for the maximum time. */
  readonly holdExpired: boolean;
  /**
   * The range of creation times from which to first move deliveries of the previous release; see
   * backfill.ts.
   */
  readonly backfill?: CreatedBetween | undefined;
}

export interface Dispatched {
  readonly deliveries: readonly ClaimedDelivery[];
  /** Whether more due deliveries may be available immediately. */
  readonly more: boolean;
  /** Concurrent exchanges that this dispatcher may have with the endpoint. */
  readonly concurrency: number;
  /** Whether other dispatchers have claimed deliveries of the endpoint. */
  readonly shared: boolean;
  /** Whether its last attempt failed. */
  readonly failing: boolean;
  /** Set if nothing was claimed because the signing secret cannot be decrypted. */
  readonly secretError: unknown;
  /** Whether deliveries of the previous release are left in webhook_deliveries. */
  readonly backfillLeft: boolean;
  /** Attempts per second that its owner permits; null: no limit. */
  readonly ratePerSecond: number | null;
  /** From when to claim again, if the endpoint's rate permits no claims before. */
  readonly throttledUntilMs: number | undefined;
}

/**
 * Thrown if another dispatcher holds the lock of the endpoint's row, which lasts for one
 * transaction.
 */
export class EndpointLocked extends Error {}

const DROPPED_MAX = 1000;
/**
 * Milliseconds of one transaction for what precedes claims, such as dropping the queue of a deleted
 * endpoint. The endpoints that are left wait for another dispatch, so that others are not delayed.
 */
const PREPARE_MS = 100;
/** Deliveries that are moved in one transaction. */
const BACKFILLED_MAX = 2000;

/** An endpoint under the lock of its row. */
interface Locked {
  readonly work: EndpointWork;
  readonly endpoint: LockedEndpoint;
}

/**
 * Records the results of endpoints, ends holds and claims due deliveries, in one transaction under
 * the locks of the endpoints' rows. Resolves with one result per endpoint; undefined, with nothing
 * done, if another dispatcher holds the lock. If the transaction fails, what was read ahead must be
 * forgotten.
 */
export async function dispatchEndpoints(
  context: DispatchContext,
  works: readonly EndpointWork[],
): Promise<(Dispatched | undefined)[]> {
  const ended: EndedDeliveries = { delivered: 0, failed: 0, dropped: 0 };
  const startedAtMs = performance.now();
  const dispatches = await inTransaction(
    context.pool,
    async (client) => {
      const locked = await lockAll(client, works);
      const dispatched = await dispatchLocked(client, [...locked.values()], { ...context, ended });
      const results: (Dispatched | undefined)[] = [];
      for (const work of works) {
        const isMissing = !locked.has(work) && !(await hasEndpoint(client, work.id));
        results.push(isMissing ? withoutEndpoint(context) : dispatched.get(work));
      }
      return results;
    },
    { preferIndexes: true, pipelined: true, prepare: true },
  );
  context.claimLease.note(performance.now() - startedAtMs);
  countEnded(ended);
  return dispatches;
}

/** A dispatch in its transaction, which counts the deliveries that it ends. */
type CountedDispatch = DispatchContext & { readonly ended: EndedDeliveries };

async function dispatchLocked(
  client: Queryable,
  locked: readonly Locked[],
  context: CountedDispatch,
): Promise<Map<EndpointWork, Dispatched>> {
  const nowMs = context.clock.nowMs();
  const recorded = await recordAll(client, locked, context, nowMs);
  const dispatched = new Map<EndpointWork, Dispatched>();
  const toClaim: (EndpointToClaim & Locked)[] = [];
  const slowAtMs = performance.now() + PREPARE_MS;
  for (const one of recorded) {
    if (dispatched.size + toClaim.length > 0 && performance.now() > slowAtMs) {
      dispatched.set(one.work, resultOf(one, context, { more: true }));
      continue;
    }
    const prepared = await prepareClaim(client, one, context, nowMs);
    if (prepared.outgoing === undefined) dispatched.set(one.work, resultOf(one, context, prepared));
    else toClaim.push({ ...one.work, ...one, outgoing: prepared.outgoing });
  }
  const claims = await claimDeliveries(client, toClaim, {
    ...context,
    // The leases begin now, not before what precedes the claims.
    nowMs: context.clock.nowMs(),
    leaseMs: context.claimLease.ms,
    token: `${context.ownTokens}${context.nextId()}`,
  });
  for (const [index, one] of toClaim.entries()) {
    const claimed = claims[index]!;
    // While other dispatchers have all exchanges of the endpoint, the next poll tries again.
    const more = claimed.concurrency > 0 && (one.readAhead.ready > 0 || one.readAhead.hasUnread);
    dispatched.set(one.work, { ...resultOf(one, context, { more }), ...claimed });
  }
  return dispatched;
}

async function lockAll(
  client: Queryable,
  works: readonly EndpointWork[],
): Promise<Map<EndpointWork, Locked>> {
  const byTenant = new Map<string, string[]>();
  for (const { id } of works) {
    const endpointIds = byTenant.get(id.tenantId);
    if (endpointIds) endpointIds.push(id.endpointId);
    else byTenant.set(id.tenantId, [id.endpointId]);
  }
  const endpoints = await lockEndpoints(client, byTenant);
  const locked = new Map<EndpointWork, Locked>();
  for (const work of works) {
    const { tenantId, endpointId } = work.id;
    const endpoint = endpoints.find((one) => one.endpointId === endpointId && one.tenantId === tenantId);
    if (endpoint) locked.set(work, { work, endpoint });
  }
  return locked;
}

/** Records results, and resolves with the endpoints in their new health. */
async function recordAll(
  client: Queryable,
  locked: readonly Locked[],
  context: CountedDispatch,
  nowMs: number,
): Promise<Locked[]> {
  const deliveries = (of: 'unsent' | 'slow') =>
    locked.flatMap(({ work }) => work[of].map((delivery) => ({ ...work.id, ...delivery })));
  await giveBack(client, deliveries('unsent'));
  await extendLeases(client, deliveries('slow'), nowMs + context.leaseMs);
  const given = locked.map(({ endpoint, work }) => ({ endpoint, attempts: work.attempts }));
  const recorded = await recordAttempts(client, given, { ...context, nowMs });
  return locked.map(({ endpoint, work }, index) => {
    const { health, ended, restarted } = recorded[index]!;
    for (const delivery of work.unsent) work.readAhead.resolve(delivery, false);
    for (const { delivery } of work.attempts) {
      work.readAhead.resolve(delivery, ended.has(delivery.messageId));
    }
    if (restarted || work.unsent.length > 0) work.readAhead.restart();
    return { work, endpoint: { ...endpoint, health } };
  });
}

/**
 * Returns the result of a dispatch without an endpoint. The row is missing only in a database
 * restored to a time before the endpoint's creation: there is nothing to record or claim.
 */
function withoutEndpoint({ concurrency }: DispatchContext): Dispatched {
  return {
    deliveries: [],
    more: false,
    concurrency,
    shared: false,
    failing: false,
    secretError: undefined,
    backfillLeft: false,
    ratePerSecond: null,
    throttledUntilMs: undefined,
  };
}

interface Prepared {
  /** The secrets and custom headers; undefined if nothing may be claimed. */
  readonly outgoing?: OutgoingEndpoint | undefined;
  readonly more?: boolean;
  readonly secretError?: unknown;
  readonly backfillLeft?: boolean;
}

function resultOf({ endpoint }: Locked, context: DispatchContext, prepared: Prepared): Dispatched {
  return {
    deliveries: [],
    more: prepared.more ?? false,
    concurrency: concurrencyOf(endpoint.health, context.concurrency),
    shared: false,
    failing: endpoint.health.failures > 0,
    secretError: prepared.secretError,
    backfillLeft: prepared.backfillLeft ?? false,
    ratePerSecond: endpoint.rate?.perSecond ?? null,
    throttledUntilMs: undefined,
  };
}

/** Does what precedes a claim, and decides whether deliveries of the endpoint may be claimed. */
async function prepareClaim(
  client: Queryable,
  locked: Locked,
  context: CountedDispatch,
  nowMs: number,
): Promise<Prepared> {
  const { endpoint, work } = locked;
  if (work.backfill) {
    const limit = BACKFILLED_MAX;
    const { moved, left } = await backfillQueue(client, work.id, { ...work.backfill, nowMs, limit });
    if (moved > 0) work.readAhead.clear();
    // The remaining deliveries may precede those in the queue, or be in flight, so a later dispatch
    // continues.
    if (left) return { more: moved > 0, backfillLeft: true };
  }
  if (endpoint.health.state !== 'enabled' || endpoint.secret === null) {
    const dropped = await dropWaiting(client, endpoint, { nowMs, limit: DROPPED_MAX });
    context.ended.dropped += dropped;
    work.readAhead.clear();
    return { more: dropped === DROPPED_MAX };
  }
  if (endpoint.health.pausedUntilMs !== null && endpoint.health.pausedUntilMs > nowMs) return {};
  if (work.holdExpired) await endExpiredHolds(client, { endpoint, readAhead: work.readAhead }, nowMs);
  // A failing endpoint may have fewer slots than were taken.
  const isUnknownToFail = endpoint.health.failures > 0 && !work.failing;
  if (work.limit <= 0 || isUnknownToFail) return { more: true };
  try {
    return { outgoing: outgoingEndpoint(context.keyRing, endpoint, nowMs) };
  } catch (error) {
    // The operator has to fix this, not the endpoint's owner: deliveries wait, and no attempt is
    // counted.
    return { secretError: error };
  }
}
