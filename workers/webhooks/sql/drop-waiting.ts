import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';
import { moveToHistory, QUEUED_COLUMNS } from './history.ts';

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
    moveToHistory(
      `delete from webhook_queue q
        using (select w.message_id
                 from webhook_queue w
                where w.tenant_id = $1 and w.endpoint_id = $2 and (w.lease_token is null or w.due_at <= $3)
                limit $4) as waiting
        where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = waiting.message_id
       returning ${QUEUED_COLUMNS}, q.first_failed_at, 'dropped' as state, $3::timestamptz as finished_at`,
    ),
    [id.tenantId, id.endpointId, new Date(options.nowMs), options.limit],
  );
  return result.rowCount ?? 0;
}
