import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';
import type { DeliveryId } from './webhook-lease.ts';

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
    `update webhook_deliveries d
        set state = $3, lease_token = null, finished_at = $4
       from unnest($5::timestamptz[], $6::text[]) as given (created_at, message_id)
      where d.tenant_id = $1 and d.endpoint_id = $2
        and d.created_at = given.created_at and d.message_id = given.message_id
        and d.state = 'pending'`,
    [
      id.tenantId,
      id.endpointId,
      state,
      new Date(nowMs),
      deliveries.map(({ createdAt }) => createdAt),
      deliveries.map(({ messageId }) => messageId),
    ],
  );
}
