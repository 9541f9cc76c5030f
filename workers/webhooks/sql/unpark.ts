import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/**
 * Brings back, of each conversation, what waits up to and including the first one that holds: called when one of them
 * is done or holds no more. Runs under the endpoint's lock.
 */
export async function unparkNext(client: Queryable, id: EndpointId, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await client.query(
    `with heads as (
       select k.ordering_key,
              (select min(b.seq) from webhook_queue b
                where b.tenant_id = $1 and b.endpoint_id = $2 and b.ordering_key = k.ordering_key
                  and b.holds) as seq
         from unnest($3::text[]) as k (ordering_key)
     )
     update webhook_queue d
        set parked = false
       from heads
      where d.tenant_id = $1 and d.endpoint_id = $2 and d.ordering_key = heads.ordering_key
        and d.parked
        and d.seq <= coalesce(heads.seq, 9223372036854775807)`,
    [id.tenantId, id.endpointId, keys],
  );
}

/** Brings back all that waits in these conversations. Runs under the endpoint's lock. */
export async function unparkAll(client: Queryable, id: EndpointId, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await client.query(
    `update webhook_queue
        set parked = false
      where tenant_id = $1 and endpoint_id = $2 and ordering_key = any($3::text[])
        and parked`,
    [id.tenantId, id.endpointId, keys],
  );
}
