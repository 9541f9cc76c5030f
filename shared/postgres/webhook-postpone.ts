import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';
import type { DeliveryId } from './webhook-lease.ts';

/** A delivery that is to wait for its next attempt. */
export interface PostponedDelivery extends DeliveryId {
  readonly dueAtMs: number;
}

/**
 * Takes the lost leases from deliveries, to be claimed again when they are due. It counts as a failure for those that wait
 * behind them in their conversation, who would have no end of it otherwise. Runs under the endpoint's lock.
 */
export async function postponeDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly PostponedDelivery[],
  nowMs: number,
): Promise<void> {
  if (deliveries.length === 0) return;
  await client.query(
    `update webhook_deliveries d
        set due_at = given.due_at, lease_token = null, first_failed_at = coalesce(d.first_failed_at, $3)
       from unnest($4::timestamptz[], $5::text[], $6::timestamptz[]) as given (created_at, message_id, due_at)
      where d.tenant_id = $1 and d.endpoint_id = $2
        and d.created_at = given.created_at and d.message_id = given.message_id
        and d.state = 'pending'`,
    [
      id.tenantId,
      id.endpointId,
      new Date(nowMs),
      deliveries.map(({ createdAt }) => createdAt),
      deliveries.map(({ messageId }) => messageId),
      deliveries.map(({ dueAtMs }) => new Date(dueAtMs)),
    ],
  );
}
