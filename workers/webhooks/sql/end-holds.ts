import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-due-endpoints.ts';

/** A delivery that had held the others of its conversation for as long as it may. */
export interface EndedHold {
  readonly orderingKey: string;
  readonly firstFailedAtMs: number;
}

/** Lets go, for ever, what first failed before `heldSinceMs` and still holds. Runs under the endpoint's lock. */
export async function endHolds(client: Queryable, id: EndpointId, heldSinceMs: number): Promise<EndedHold[]> {
  const { rows } = await client.query<{ ordering_key: string; first_failed_at: Date }>(
    `update webhook_queue
        set holds = false
      where tenant_id = $1 and endpoint_id = $2
        and holds and ordering_key is not null
        and first_failed_at is not null and first_failed_at <= $3
     returning ordering_key, first_failed_at`,
    [id.tenantId, id.endpointId, new Date(heldSinceMs)],
  );
  return rows.map((row) => ({
    orderingKey: row.ordering_key,
    firstFailedAtMs: row.first_failed_at.getTime(),
  }));
}
