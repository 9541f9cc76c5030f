import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';
import { moveToHistory, QUEUED_COLUMNS } from './history.ts';
import type { DeliveryId } from './lease.ts';

/** Ends deliveries without a further attempt. Runs under the endpoint's lock. */
export async function finishDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly DeliveryId[],
  state: 'failed' | 'dropped',
  nowMs: number,
): Promise<void> {
  if (deliveries.length === 0) return;
  await client.query(
    moveToHistory(
      `delete from webhook_queue q
        where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = any($5::text[])
       returning ${QUEUED_COLUMNS}, q.first_failed_at, $3::text as state, $4::timestamptz as finished_at`,
    ),
    [id.tenantId, id.endpointId, state, new Date(nowMs), deliveries.map(({ messageId }) => messageId)],
  );
}
