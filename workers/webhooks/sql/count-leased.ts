import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/** Deliveries of an endpoint that are on their way now, over all dispatchers. Runs under the endpoint's lock. */
export async function countLeased(client: Queryable, id: EndpointId, nowMs: number): Promise<number> {
  const { rows } = await client.query<{ leased: number }>(
    `select count(*)::int as leased
       from webhook_queue
      where tenant_id = $1 and endpoint_id = $2
        and lease_token is not null and due_at > $3`,
    [id.tenantId, id.endpointId, new Date(nowMs)],
  );
  return rows[0]!.leased;
}
