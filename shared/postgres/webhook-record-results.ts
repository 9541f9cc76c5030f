import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';
import type { DeliveryId } from './webhook-lease.ts';

/** What an attempt makes of its delivery. */
export interface DeliveryResult extends DeliveryId {
  /** The lease under which it was sent. */
  readonly token: string;
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly finishedAtMs: number;
  /** When it is due again; of meaning while pending. */
  readonly dueAtMs: number;
}

/**
 * Stores results that still have their lease, and resolves with the ordering keys of these by message id; what is
 * missing there was sent again by another dispatcher, or dropped, meanwhile. Runs under the endpoint's lock.
 */
export async function recordResults(
  client: Queryable,
  id: EndpointId,
  results: readonly DeliveryResult[],
): Promise<Map<string, string | null>> {
  const { rows } = await client.query<{ message_id: string; ordering_key: string | null }>(
    `update webhook_deliveries d
        set state = given.state,
            due_at = given.due_at,
            lease_token = null,
            first_failed_at = case when given.state = 'delivered' then d.first_failed_at
                                   else coalesce(d.first_failed_at, given.finished_at) end,
            finished_at = case when given.state = 'pending' then null else given.finished_at end
       from unnest($3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[])
         as given (created_at, message_id, token, state, finished_at, due_at)
      where d.tenant_id = $1 and d.endpoint_id = $2
        and d.created_at = given.created_at and d.message_id = given.message_id
        and d.state = 'pending' and d.lease_token = given.token
     returning d.message_id, d.ordering_key`,
    [
      id.tenantId,
      id.endpointId,
      results.map(({ createdAt }) => createdAt),
      results.map(({ messageId }) => messageId),
      results.map(({ token }) => token),
      results.map(({ state }) => state),
      results.map(({ finishedAtMs }) => new Date(finishedAtMs)),
      results.map(({ dueAtMs }) => new Date(dueAtMs)),
    ],
  );
  return new Map(rows.map((row) => [row.message_id, row.ordering_key]));
}
