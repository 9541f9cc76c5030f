import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';

/** An endpoint with due work. */
export interface DueEndpoint {
  readonly id: EndpointId;
  /** Whether its last attempt failed. */
  readonly failing: boolean;
  /** Whether a hold has lasted for the maximum time. */
  readonly holdExpired: boolean;
}

/**
 * Returns the endpoints with due work. An endpoint has due work if a delivery is due, or if a hold
 * has lasted since before `heldSinceMs`. A disabled or deleted endpoint has due work if deliveries
 * must be dropped. Takes no locks. May include an endpoint whose due deliveries all wait for
 * earlier ones.
 */
export async function findDueEndpoints(
  client: Queryable,
  options: { readonly nowMs: number; readonly heldSinceMs: number },
): Promise<DueEndpoint[]> {
  const deleted = client.isCitus ? DELETED_ON_CITUS : DELETED;
  const { rows } = await client.query<EndpointId & Omit<DueEndpoint, 'id'>>(
    `${deleted.before} select e.tenant_id as "tenantId", e.endpoint_id as "endpointId", e.failures > 0 as failing,
            ${HOLD_EXPIRED} as "holdExpired"
       from webhook_endpoints e
      where e.state = 'enabled' and e.state <> 'deleted'
        and (e.paused_until is null or e.paused_until <= $1)
        and (exists (select 1 from webhook_queue d
                      where d.tenant_id = e.tenant_id and d.endpoint_id = e.endpoint_id
                        and not d.parked and d.due_at <= $1)
          or ${HOLD_EXPIRED})
     union all
     select e.tenant_id, e.endpoint_id, e.failures > 0, false
       from webhook_endpoints e
      where e.state = 'disabled' and e.state <> 'deleted'
        and exists (select 1 from webhook_queue d
                     where d.tenant_id = e.tenant_id and d.endpoint_id = e.endpoint_id
                       and (d.lease_token is null or d.due_at <= $1))
     union all
     select e.tenant_id, e.endpoint_id, e.failures > 0, false
       from ${deleted.from}
        and exists (select 1 from webhook_queue d
                     where d.tenant_id = e.tenant_id and d.endpoint_id = e.endpoint_id
                       and (d.lease_token is null or d.due_at <= $1))`,
    [new Date(options.nowMs), new Date(options.heldSinceMs)],
  );
  return rows.map(({ failing, holdExpired, ...id }) => ({ id, failing, holdExpired }));
}

const HOLD_EXPIRED = `(e.resumed_at is null or e.resumed_at <= $2)
          and exists (select 1 from webhook_queue d
                      where d.tenant_id = e.tenant_id and d.endpoint_id = e.endpoint_id
                        and d.holds and d.ordering_key is not null
                        and d.first_failed_at is not null and d.first_failed_at <= $2)`;

/**
 * Deleted endpoints are kept for ever, and must not all be read. Postgres finds those with
 * deliveries by stepping through the queue from one endpoint to the next. `limit 1` makes the planner
 * look up each endpoint by its key.
 */
const DELETED = {
  before: `with recursive queued as (
       (select tenant_id, endpoint_id from webhook_queue order by tenant_id, endpoint_id limit 1)
       union all
       select next.tenant_id, next.endpoint_id
         from queued
        cross join lateral (select d.tenant_id, d.endpoint_id from webhook_queue d
                             where (d.tenant_id, d.endpoint_id) > (queued.tenant_id, queued.endpoint_id)
                             order by d.tenant_id, d.endpoint_id
                             limit 1) as next
     )`,
  from: `queued
      cross join lateral (select tenant_id, endpoint_id, failures
                            from webhook_endpoints
                           where tenant_id = queued.tenant_id and endpoint_id = queued.endpoint_id
                             and state = 'deleted'
                           limit 1) as e
      where true`,
};

/** Citus refuses such steps over its shards. Each shard reads its own deleted endpoints instead. */
const DELETED_ON_CITUS = { before: '', from: `webhook_endpoints e where e.state = 'deleted'` };
