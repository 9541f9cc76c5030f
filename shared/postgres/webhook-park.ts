import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';
import type { DeliveryId } from './webhook-lease.ts';

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
    `update webhook_deliveries d
        set parked = true
       from unnest($3::timestamptz[], $4::text[]) as given (created_at, message_id)
      where d.tenant_id = $1 and d.endpoint_id = $2
        and d.created_at = given.created_at and d.message_id = given.message_id
        and d.state = 'pending'`,
    [
      id.tenantId,
      id.endpointId,
      deliveries.map(({ createdAt }) => createdAt),
      deliveries.map(({ messageId }) => messageId),
    ],
  );
}
