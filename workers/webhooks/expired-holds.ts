import type { Queryable } from '../../shared/postgres/pool.ts';
import type { ReadAhead } from './read-ahead.ts';
import { HOLD_MS } from './schedule.ts';
import type { LockedEndpoint } from './sql/endpoints.ts';
import { endHolds, unparkAll, unparkNext } from './sql/holds.ts';

/**
 * Ends the holds of conversations whose first delivery has failed for HOLD_MS. If the endpoint has
 * had no success since that failure, releases all their deliveries; otherwise only the next one.
 * Nothing is sent during a pause by the owner, so HOLD_MS begin again at its end.
 */
export async function endExpiredHolds(
  client: Queryable,
  { endpoint, readAhead }: { readonly endpoint: LockedEndpoint; readonly readAhead: ReadAhead },
  nowMs: number,
): Promise<void> {
  const heldSinceMs = nowMs - HOLD_MS;
  if (endpoint.resumedAtMs !== null && endpoint.resumedAtMs > heldSinceMs) return;
  const ended = await endHolds(client, endpoint, heldSinceMs);
  if (ended.length === 0) return;
  readAhead.clear();
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
