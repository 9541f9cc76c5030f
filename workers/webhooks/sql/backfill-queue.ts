import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';

/**
 * Processes of the previous release use webhook_deliveries as their queue: they write `pending`
 * rows to that table, and lease them. The functions in this file move these rows to webhook_queue,
 * so that this release can send them. Needed during a rolling deploy and once afterwards.
 */

/**
 * A range of creation times in milliseconds: `fromMs` inclusive, `toMs` exclusive. Limits the
 * partitions that are planned.
 */
export interface CreatedBetween {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Backfilled {
  /** Number of deliveries that were moved. */
  readonly moved: number;
  /**
   * Whether deliveries are left: beyond `limit`, or in flight in a process of the previous release.
   */
  readonly left: boolean;
}

/** Returns the endpoints with pending deliveries in webhook_deliveries. Takes no locks. */
export async function findEndpointsToBackfill(db: Queryable, created: CreatedBetween): Promise<EndpointId[]> {
  // A parked delivery waits for an unparked one of the same endpoint, so these are all endpoints.
  const { rows } = await db.query<EndpointId>(
    `select distinct tenant_id as "tenantId", endpoint_id as "endpointId"
       from webhook_deliveries
      where state = 'pending' and not parked and created_at >= $1 and created_at < $2`,
    [new Date(created.fromMs), new Date(created.toMs)],
  );
  return rows;
}

/**
 * Moves up to `limit` deliveries of an endpoint from webhook_deliveries to webhook_queue.
 * Deliveries keep their order but are unparked, and the claim parks them again. Otherwise a
 * delivery could wait for one that ends in webhook_deliveries, and nothing would unpark it. A
 * delivery leased by a process of the previous release is not moved until its lease ends. Otherwise
 * its result would be lost, and the delivery sent again. Runs under the endpoint's lock.
 */
export async function backfillQueue(
  client: Queryable,
  id: EndpointId,
  options: CreatedBetween & { readonly nowMs: number; readonly limit: number },
): Promise<Backfilled> {
  const bounds = [id.tenantId, id.endpointId, new Date(options.fromMs), new Date(options.toMs)];
  if (!(await hasWaiting(client, bounds))) return { moved: 0, left: false };
  const { rowCount } = await client.query(
    `with waiting as (
       select created_at, message_id from (${WAITING}) as w where lease_token is null or due_at <= $5 limit $6
     ), moved as (
       delete from webhook_deliveries d
        using waiting
        where d.tenant_id = $1 and d.endpoint_id = $2 and d.created_at >= $3 and d.created_at < $4
          and d.created_at = waiting.created_at and d.message_id = waiting.message_id
       returning d.tenant_id, d.endpoint_id, d.message_id, d.created_at, d.seq, d.ordering_key, d.due_at, d.attempts,
                 d.lease_token, d.holds, d.first_failed_at
     )
     insert into webhook_queue
       (tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at, attempts, lease_token, parked, holds,
        first_failed_at)
     select tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at, attempts, lease_token, false, holds,
            first_failed_at
       from moved`,
    [...bounds, new Date(options.nowMs), options.limit],
  );
  return { moved: rowCount ?? 0, left: await hasWaiting(client, bounds) };
}

/**
 * Conditions for two queries, because each has its own index: one query for both would read the
 * endpoint's whole history. Parked deliveries are moved first. So while any are left, unparked ones
 * are too, and hasWaiting only needs to search for those.
 */
const WAITING = ['parked', 'not parked']
  .map(
    (part) =>
      `select created_at, message_id, lease_token, due_at from webhook_deliveries
        where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at < $4
          and state = 'pending' and ${part}`,
  )
  .join(' union all ');

async function hasWaiting(client: Queryable, bounds: unknown[]): Promise<boolean> {
  const { rowCount } = await client.query(
    `select 1 from webhook_deliveries
      where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at < $4
        and state = 'pending' and not parked
      limit 1`,
    bounds,
  );
  return rowCount === 1;
}
