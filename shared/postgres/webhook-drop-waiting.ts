import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';

/**
 * Drops up to `limit` deliveries that wait for an endpoint which takes none any more, and resolves with their number.
 * What is on its way keeps its lease. Runs under the endpoint's lock.
 */
export async function dropWaiting(
  client: Queryable,
  id: EndpointId,
  options: { readonly nowMs: number; readonly limit: number },
): Promise<number> {
  const result = await client.query(
    `update webhook_deliveries d
        set state = 'dropped', lease_token = null, finished_at = $3
       from (select w.created_at, w.message_id
               from webhook_deliveries w
              where w.tenant_id = $1 and w.endpoint_id = $2
                and w.state = 'pending' and (w.lease_token is null or w.due_at <= $3)
              limit $4) as waiting
      where d.tenant_id = $1 and d.endpoint_id = $2
        and d.created_at = waiting.created_at and d.message_id = waiting.message_id`,
    [id.tenantId, id.endpointId, new Date(options.nowMs), options.limit],
  );
  return result.rowCount ?? 0;
}
