import type { Clock } from '../../shared/clock.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { Attempt } from './attempt.ts';
import { type Claimed, claimDeliveries } from './claim.ts';
import { concurrencyOf } from './health.ts';
import { recordAttempts } from './results.ts';
import { HOLD_MS } from './schedule.ts';
import { type Backfilled, backfillQueue, type CreatedBetween } from './sql/backfill-queue.ts';
import { hasEndpoint, type LockedEndpoint, lockEndpoint } from './sql/endpoints.ts';
import { dropWaiting } from './sql/history.ts';
import { endHolds, unparkAll, unparkNext } from './sql/holds.ts';

export interface DispatchContext {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly random: () => number;
  readonly keyRing: KeyRing;
  /** Concurrent exchanges of a healthy endpoint, in all dispatchers together. */
  readonly concurrency: number;
  readonly leaseMs: number;
}

/** The work of one dispatch. */
export interface DispatchWork {
  /** Attempts whose results are to be recorded. */
  readonly attempts: readonly Attempt[];
  /** Maximum number of deliveries to claim. */
  readonly limit: number;
  /**
   * The range of creation times from which to first move deliveries of the previous release; see
   * backfill.ts.
   */
  readonly backfill?: CreatedBetween | undefined;
}

export interface Dispatched extends Claimed {
  /** Concurrent exchanges that the endpoint may have. */
  readonly concurrency: number;
  /** Whether its last attempt failed. */
  readonly failing: boolean;
  /** Set if nothing was claimed because the signing secret cannot be decrypted. */
  readonly secretError: unknown;
  /** Whether deliveries of the previous release are left in webhook_deliveries. */
  readonly backfillLeft: boolean;
}

const DROPPED_MAX = 1000;
/** Deliveries that are moved in one transaction. */
const BACKFILLED_MAX = 2000;
const NOTHING: Claimed = { deliveries: [], more: false };

/**
 * Records the results of an endpoint, ends holds and claims due deliveries, in one transaction
 * under the lock of the endpoint's row. Does nothing and resolves with undefined if another
 * dispatcher holds the lock.
 */
export async function dispatchEndpoint(
  context: DispatchContext,
  id: EndpointId,
  work: DispatchWork,
): Promise<Dispatched | undefined> {
  return await inTransaction(context.pool, async (client) => {
    const locked = await lockEndpoint(client, id);
    if (!locked) return (await hasEndpoint(client, id)) ? undefined : withoutEndpoint(context);
    const nowMs = context.clock.nowMs();
    const health =
      work.attempts.length > 0
        ? await recordAttempts(client, locked, work.attempts, { ...context, nowMs })
        : locked.health;
    const endpoint = { ...locked, health };
    const backfilled = await backfill(client, id, work.backfill, nowMs);
    const dispatched = {
      concurrency: concurrencyOf(health, context.concurrency),
      failing: health.failures > 0,
      secretError: undefined,
      backfillLeft: backfilled.left,
    };
    // The remaining deliveries may precede those in the queue, or be in flight, so a later dispatch
    // continues.
    if (backfilled.left) return { ...dispatched, deliveries: [], more: backfilled.moved > 0 };
    return { ...dispatched, ...(await claimOrDrop(client, endpoint, context, nowMs, work.limit)) };
  });
}

/**
 * Returns the result of a dispatch without an endpoint. The row is missing only in a database
 * restored to a time before the endpoint's creation: there is nothing to record or claim.
 */
function withoutEndpoint({ concurrency }: DispatchContext): Dispatched {
  return { ...NOTHING, concurrency, failing: false, secretError: undefined, backfillLeft: false };
}

async function backfill(
  client: Queryable,
  id: EndpointId,
  created: CreatedBetween | undefined,
  nowMs: number,
): Promise<Backfilled> {
  if (!created) return { moved: 0, left: false };
  return await backfillQueue(client, id, { ...created, nowMs, limit: BACKFILLED_MAX });
}

async function claimOrDrop(
  client: Queryable,
  endpoint: LockedEndpoint,
  context: DispatchContext,
  nowMs: number,
  limit: number,
): Promise<Claimed & { secretError?: unknown }> {
  if (endpoint.health.state !== 'enabled' || endpoint.secret === null) {
    const dropped = await dropWaiting(client, endpoint, { nowMs, limit: DROPPED_MAX });
    return { deliveries: [], more: dropped === DROPPED_MAX };
  }
  const paused = endpoint.health.pausedUntilMs !== null && endpoint.health.pausedUntilMs > nowMs;
  if (paused) return NOTHING;
  if (limit <= 0) return { deliveries: [], more: true };
  await endExpiredHolds(client, endpoint, nowMs);
  let secret: Buffer;
  try {
    const { keyId, ciphertext } = endpoint.secret;
    secret = context.keyRing.decrypt(
      keyId,
      ciphertext,
      webhookSecretAad(endpoint.tenantId, endpoint.endpointId),
    );
  } catch (error) {
    // The operator has to fix this, not the endpoint's owner: deliveries wait, and no attempt is
    // counted.
    return { ...NOTHING, secretError: error };
  }
  return await claimDeliveries(client, endpoint, { ...context, nowMs, limit, secrets: [secret] });
}

/**
 * Ends the holds of conversations whose first delivery has failed for HOLD_MS. If the endpoint has
 * had no success since that failure, releases all their deliveries; otherwise only the next one.
 */
async function endExpiredHolds(client: Queryable, endpoint: LockedEndpoint, nowMs: number): Promise<void> {
  const ended = await endHolds(client, endpoint, nowMs - HOLD_MS);
  if (ended.length === 0) return;
  const { lastSuccessAtMs } = endpoint.health;
  const allOf = new Set<string>();
  const nextOf = new Set<string>();
  for (const { orderingKey, firstFailedAtMs } of ended) {
    const unanswered = lastSuccessAtMs === null || firstFailedAtMs > lastSuccessAtMs;
    (unanswered ? allOf : nextOf).add(orderingKey);
  }
  await unparkAll(client, endpoint, [...allOf].sort());
  await unparkNext(client, endpoint, [...nextOf].sort());
}
