import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/** A waiting delivery of an endpoint, with the time by which its message's partition is found. */
export interface DeliveryId {
  readonly createdAt: Date;
  readonly messageId: string;
}

/** A delivery under lease, with the bytes to send. */
export interface LeasedDelivery extends DeliveryId {
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly body: Buffer;
}

/**
 * Leases deliveries: counts the attempt, and hides them from other dispatchers until `untilMs`. What lacks its body (the
 * week of its message was dropped, and the body not copied to the queue before) is not leased. Runs under the endpoint's lock.
 *
 * The bound on `m.created_at` is constant for the planner, so that it opens the partitions of these messages only.
 */
export async function leaseDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly DeliveryId[],
  lease: { readonly token: string; readonly untilMs: number },
): Promise<LeasedDelivery[]> {
  const { rows } = await client.query<{
    created_at: Date;
    message_id: string;
    attempts: number;
    body: Buffer;
  }>(
    `update webhook_queue q
        set attempts = q.attempts + 1, lease_token = $3, due_at = $4
       from unnest($5::timestamptz[], $6::text[]) as given (created_at, message_id)
       left join webhook_messages m
         on m.tenant_id = $1 and m.created_at = any($5::timestamptz[])
        and m.created_at = given.created_at and m.message_id = given.message_id
      where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = given.message_id
        and (q.body is not null or m.body is not null)
     returning q.created_at, q.message_id, q.attempts, coalesce(q.body, m.body) as body`,
    [
      id.tenantId,
      id.endpointId,
      lease.token,
      new Date(lease.untilMs),
      deliveries.map(({ createdAt }) => createdAt),
      deliveries.map(({ messageId }) => messageId),
    ],
  );
  return rows.map((row) => ({
    createdAt: row.created_at,
    messageId: row.message_id,
    attempt: row.attempts,
    body: row.body,
  }));
}
