import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';
import type { DeliveryId } from './lease.ts';

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
    `update webhook_queue q
        set due_at = given.due_at, lease_token = null, first_failed_at = coalesce(q.first_failed_at, $3)
       from unnest($4::text[], $5::timestamptz[]) as given (message_id, due_at)
      where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = given.message_id`,
    [
      id.tenantId,
      id.endpointId,
      new Date(nowMs),
      deliveries.map(({ messageId }) => messageId),
      deliveries.map(({ dueAtMs }) => new Date(dueAtMs)),
    ],
  );
}
