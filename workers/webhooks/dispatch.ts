import type { Clock } from '../../shared/clock.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { inTransaction, type Pool, type PoolClient } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-due-endpoints.ts';
import type { Attempt } from './attempt.ts';
import { type Claimed, claimDeliveries } from './claim.ts';
import { concurrencyOf } from './health.ts';
import { recordAttempts } from './record.ts';
import { HOLD_MS } from './schedule.ts';
import { backfillQueue, type CreatedBetween } from './sql/backfill-queue.ts';
import { dropWaiting } from './sql/drop-waiting.ts';
import { endHolds } from './sql/end-holds.ts';
import { hasEndpoint, type LockedEndpoint, lockEndpoint } from './sql/lock-endpoint.ts';
import { unparkAll, unparkNext } from './sql/unpark.ts';

export interface VisitOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly random: () => number;
  readonly keyRing: KeyRing;
  readonly concurrency: number;
  readonly leaseMs: number;
  /** Where deliveries of the previous release are to be moved first; see backfill.ts. */
  readonly backfill?: CreatedBetween | undefined;
}

export interface Visit extends Claimed {
  /** Exchanges the endpoint may have at once. */
  readonly concurrency: number;
  /** Whether its last attempt failed. */
  readonly failing: boolean;
  /** Why nothing could be claimed although something may be due: the signing secret cannot be read. */
  readonly secretError: unknown;
  /** Whether deliveries of the previous release are left. */
  readonly backfillLeft: boolean;
}

const DROPPED_MAX = 1000;
/** Deliveries that are moved in one transaction. */
const BACKFILLED_MAX = 2000;
const NOTHING: Claimed = { deliveries: [], more: false };

/**
 * All that is to be done for one endpoint, in one transaction under its row's lock: stores results, ends holds, and
 * claims up to `limit` deliveries. Resolves with undefined, nothing done, where another dispatcher has the lock.
 */
export async function visitEndpoint(
  options: VisitOptions,
  id: EndpointId,
  attempts: readonly Attempt[],
  limit: number,
): Promise<Visit | undefined> {
  return await inTransaction(options.pool, async (client) => {
    const locked = await lockEndpoint(client, id);
    if (!locked) {
      if (await hasEndpoint(client, id)) return undefined;
      // There is nothing to record, or to claim.
      return {
        ...NOTHING,
        concurrency: options.concurrency,
        failing: false,
        secretError: undefined,
        backfillLeft: false,
      };
    }
    const nowMs = options.clock.nowMs();
    const health =
      attempts.length > 0
        ? await recordAttempts(client, locked, attempts, { ...options, nowMs })
        : locked.health;
    const endpoint = { ...locked, health };
    const backfilled = await backfill(client, id, options.backfill, nowMs);
    const done = {
      concurrency: concurrencyOf(health, options.concurrency),
      failing: health.failures > 0,
      secretError: undefined,
      backfillLeft: backfilled.left,
    };
    // What is left may come before what is in the queue, or is in flight: the next visit, or look, goes on.
    if (backfilled.left) return { ...done, deliveries: [], more: backfilled.moved > 0 };
    return { ...done, ...(await claimOrDrop(client, endpoint, options, nowMs, limit)) };
  });
}

async function backfill(
  client: PoolClient,
  id: EndpointId,
  created: CreatedBetween | undefined,
  nowMs: number,
): Promise<{ readonly moved: number; readonly left: boolean }> {
  if (!created) return { moved: 0, left: false };
  return await backfillQueue(client, id, { ...created, nowMs, limit: BACKFILLED_MAX });
}

async function claimOrDrop(
  client: PoolClient,
  endpoint: LockedEndpoint,
  options: VisitOptions,
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
  await endHoldsOfAnHour(client, endpoint, nowMs);
  let secret: Buffer;
  try {
    const { keyId, ciphertext } = endpoint.secret;
    secret = options.keyRing.decrypt(
      keyId,
      ciphertext,
      webhookSecretAad(endpoint.tenantId, endpoint.endpointId),
    );
  } catch (error) {
    // Ours to repair, not the endpoint's failure: its deliveries wait, and no attempt is counted.
    return { ...NOTHING, secretError: error };
  }
  return await claimDeliveries(client, endpoint, { ...options, nowMs, limit, secrets: [secret] });
}

/** Where the endpoint had no success since, the whole conversation goes at once; otherwise only the next in line. */
async function endHoldsOfAnHour(client: PoolClient, endpoint: LockedEndpoint, nowMs: number): Promise<void> {
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
