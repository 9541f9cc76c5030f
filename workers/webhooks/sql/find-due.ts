import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/** A delivery that is due, as it stands before it is claimed. */
export interface DueDelivery {
  readonly createdAt: Date;
  readonly messageId: string;
  readonly orderingKey: string | null;
  /** Attempts begun so far. */
  readonly attempts: number;
  /** Whether a lease ran out without a result: its sender died, or could not reach the database. */
  readonly leaseRanOut: boolean;
  /** Whether it must wait behind an earlier one of its conversation. */
  readonly held: boolean;
}

/**
 * Due deliveries of one endpoint, oldest first. One is held while an earlier one of its conversation holds, unless one
 * that had its hour failed and the endpoint has had no success since: then the conversation goes without order.
 * Runs under the endpoint's lock.
 */
export async function findDueDeliveries(
  client: Queryable,
  id: EndpointId,
  options: { readonly nowMs: number; readonly lastSuccessAtMs: number | null; readonly limit: number },
): Promise<DueDelivery[]> {
  const { rows } = await client.query<{
    created_at: Date;
    message_id: string;
    ordering_key: string | null;
    attempts: number;
    lease_ran_out: boolean;
    held: boolean;
  }>(
    `select d.created_at, d.message_id, d.ordering_key, d.attempts, d.lease_token is not null as lease_ran_out,
            d.ordering_key is not null
            and exists (select 1 from webhook_queue b
                         where b.tenant_id = $1 and b.endpoint_id = $2 and b.ordering_key = d.ordering_key
                           and b.holds and b.seq < d.seq)
            and not exists (select 1 from webhook_queue f
                             where f.tenant_id = $1 and f.endpoint_id = $2 and f.ordering_key = d.ordering_key
                               and not f.holds and f.seq < d.seq
                               and ($4::timestamptz is null or f.first_failed_at > $4)) as held
       from webhook_queue d
      where d.tenant_id = $1 and d.endpoint_id = $2
        and not d.parked and d.due_at <= $3
      order by d.due_at, d.seq
      limit $5`,
    [
      id.tenantId,
      id.endpointId,
      new Date(options.nowMs),
      options.lastSuccessAtMs === null ? null : new Date(options.lastSuccessAtMs),
      options.limit,
    ],
  );
  return rows.map((row) => ({
    createdAt: row.created_at,
    messageId: row.message_id,
    orderingKey: row.ordering_key,
    attempts: row.attempts,
    leaseRanOut: row.lease_ran_out,
    held: row.held,
  }));
}
