import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';
import type { DeliveryId } from './lease.ts';

/**
 * Puts deliveries that wait behind others of their conversation aside, so that they are not found again and again; see
 * webhook-unpark.ts for how they come back. Runs under the endpoint's lock.
 */
export async function parkDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly DeliveryId[],
): Promise<void> {
  if (deliveries.length === 0) return;
  await client.query(
    `update webhook_queue
        set parked = true
      where tenant_id = $1 and endpoint_id = $2 and message_id = any($3::text[])`,
    [id.tenantId, id.endpointId, deliveries.map(({ messageId }) => messageId)],
  );
}
