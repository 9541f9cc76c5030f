import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/**
 * Processes of the previous release use webhook_deliveries as their queue: they write `pending` rows there, and lease
 * them. The functions here move those rows to webhook_queue, so that this release can send them. Needed while such
 * processes run, and once afterwards.
 */

/** Times of creation to look at, in milliseconds: `fromMs` included, `toMs` not. Bounds the partitions that are planned. */
export interface CreatedBetween {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Backfilled {
  /** Deliveries that were moved now. */
  readonly moved: number;
  /** Whether some are left: beyond `limit`, or in flight at a process of the previous release. */
  readonly left: boolean;
}

/** Endpoints with deliveries that wait in webhook_deliveries. Takes no locks. */
export async function findEndpointsToBackfill(db: Queryable, created: CreatedBetween): Promise<EndpointId[]> {
  // A parked delivery waits for one of the same endpoint that is not, so these are all endpoints.
  const { rows } = await db.query<{ tenant_id: string; endpoint_id: string }>(
    `select distinct tenant_id, endpoint_id
       from webhook_deliveries
      where state = 'pending' and not parked and created_at >= $1 and created_at < $2`,
    [new Date(created.fromMs), new Date(created.toMs)],
  );
  return rows.map((row) => ({ tenantId: row.tenant_id, endpointId: row.endpoint_id }));
}

/**
 * Moves up to `limit` deliveries of an endpoint from webhook_deliveries to webhook_queue, with their place in the order.
 * None is parked there: what it waited for may end in webhook_deliveries, where nothing would release it; the claim parks
 * it again. What a process of the previous release has leased stays there until its lease ends: otherwise its result
 * would be lost, and the delivery sent again. Runs under the endpoint's lock.
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
       returning d.*
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
 * Two parts, as each has an index of its own: together they would be found by reading all of the endpoint's history. The
 * parked ones first: while some are left, others are, and hasWaiting looks only for those.
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
    `select from webhook_deliveries
      where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at < $4
        and state = 'pending' and not parked
      limit 1`,
    bounds,
  );
  return rowCount === 1;
}
