import { epochMs, toMs } from '../../../shared/postgres/epoch-ms.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/** One time of creation, in milliseconds, for each week of which deliveries wait for an endpoint. */
export async function findQueuedWeeks(db: Queryable, id: EndpointId): Promise<number[]> {
  // Weeks begin on Mondays, and the epoch was a Thursday.
  const { rows } = await db.query<{ created_at_ms: bigint | string }>(
    `select ${epochMs('min(created_at)')} as created_at_ms
       from webhook_queue
      where tenant_id = $1 and endpoint_id = $2
      group by floor((extract(epoch from created_at) - 345600) / 604800)`,
    [id.tenantId, id.endpointId],
  );
  return rows.map((row) => toMs(row.created_at_ms));
}
