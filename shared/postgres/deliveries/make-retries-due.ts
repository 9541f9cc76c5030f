import { inTransaction, type Pool } from '../pool.ts';
import { isoTime } from '../times.ts';
import type { EndpointId } from '../webhook-endpoints.ts';
import { notifyDispatchers } from '../webhook-notifications.ts';

/** Deliveries that one transaction changes, so that dispatchers wait only for a moment. */
const STEP_SIZE = 1000;
/** Maximum deliveries that one call makes due. The others keep their times. */
export const RETRIES_DUE_MAX = 10 * STEP_SIZE;

/**
 * Makes deliveries of an endpoint that wait for a retry due now, those with the nearest retry first, and
 * resolves with their number, at most {@link RETRIES_DUE_MAX}. Of those, the oldest are sent first. Their
 * attempts still count, so that one that fails again waits for the next delay of its schedule. What waits
 * for an earlier delivery of its conversation still does.
 */
export async function makeRetriesDue(pool: Pool, id: EndpointId, nowMs: number): Promise<number> {
  let count = 0;
  while (count < RETRIES_DUE_MAX) {
    const changed = await makeSomeDue(pool, id, nowMs);
    count += changed;
    if (changed < STEP_SIZE) break;
  }
  return count;
}

async function makeSomeDue(pool: Pool, id: EndpointId, nowMs: number): Promise<number> {
  return await inTransaction(
    pool,
    async (db) => {
      // Dispatchers change deliveries in the queue only under this lock.
      await db.query(
        'select 1 from webhook_endpoints where tenant_id = $1 and endpoint_id = $2 for no key update',
        [id.tenantId, id.endpointId],
      );
      // Two statements: of a join, the planner repeats the search for each delivery while the queue has no statistics.
      const { rows } = await db.query<{ messageId: string }>(
        `select message_id as "messageId" from webhook_queue
          where tenant_id = $1 and endpoint_id = $2 and not parked and lease_token is null and due_at > $3
          order by due_at, seq
          limit ${STEP_SIZE}`,
        [id.tenantId, id.endpointId, isoTime(nowMs)],
      );
      if (rows.length === 0) return 0;
      await db.query(
        `update webhook_queue set due_at = $3
          where tenant_id = $1 and endpoint_id = $2 and message_id = any($4::text[])`,
        [id.tenantId, id.endpointId, isoTime(nowMs), rows.map(({ messageId }) => messageId)],
      );
      await notifyDispatchers(db, id);
      return rows.length;
    },
    { preferIndexes: true },
  );
}
