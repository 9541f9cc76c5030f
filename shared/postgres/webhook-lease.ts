import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';

/** A delivery by its place: rows are found by both, so that one partition is looked at. */
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
 * Leases deliveries: counts the attempt, and hides them from other dispatchers until `untilMs`. What lacks its message
 * (its week was dropped) is not leased. Runs under the endpoint's lock.
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
    `update webhook_deliveries d
        set attempts = d.attempts + 1, lease_token = $3, due_at = $4
       from unnest($5::timestamptz[], $6::text[]) as given (created_at, message_id)
       join webhook_messages m
         on m.tenant_id = $1 and m.created_at = given.created_at and m.message_id = given.message_id
      where d.tenant_id = $1 and d.endpoint_id = $2
        and d.created_at = given.created_at and d.message_id = given.message_id
        and d.state = 'pending'
     returning d.created_at, d.message_id, d.attempts, m.body`,
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
