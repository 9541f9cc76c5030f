import { withoutAnswer } from '../../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import { immutableEpochMs } from '../../../shared/postgres/times.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import type { DeliveryId } from './queue.ts';

/** A delivery that had held later deliveries of its conversation for the maximum time. */
export interface EndedHold {
  readonly orderingKey: string;
  readonly firstFailedAtMs: number;
}

/**
 * Permanently ends the holds of deliveries that first failed before `heldSinceMs`. Runs under the
 * endpoint's lock.
 */
export async function endHolds(client: Queryable, id: EndpointId, heldSinceMs: number): Promise<EndedHold[]> {
  const { rows } = await client.query<EndedHold>(
    `update webhook_queue
        set holds = false
      where tenant_id = $1 and endpoint_id = $2
        and holds and ordering_key is not null
        and first_failed_at is not null and first_failed_at <= $3
     returning ordering_key as "orderingKey", ${immutableEpochMs('first_failed_at')} as "firstFailedAtMs"`,
    [id.tenantId, id.endpointId, new Date(heldSinceMs)],
  );
  return rows;
}

/**
 * Parks deliveries that an earlier delivery of their conversation holds, so that not every claim
 * reads them again. {@link unparkNext} makes parked deliveries due again. Runs under the endpoint's
 * lock.
 */
export async function parkDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly Pick<DeliveryId, 'messageId'>[],
): Promise<void> {
  if (deliveries.length === 0) return;
  await withoutAnswer(client).query(
    `update webhook_queue
        set parked = true
      where tenant_id = $1 and endpoint_id = $2 and message_id = any($3::text[])`,
    [id.tenantId, id.endpointId, deliveries.map(({ messageId }) => messageId)],
  );
}

/**
 * Unparks the deliveries of each conversation up to and including the first one that has a hold.
 * Must be called when a delivery or a hold of the conversation has ended. Runs under the endpoint's
 * lock.
 */
export async function unparkNext(client: Queryable, id: EndpointId, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await withoutAnswer(client).query(
    `with heads as (
       select k.ordering_key,
              (select min(b.seq) from webhook_queue b
                where b.tenant_id = $1 and b.endpoint_id = $2 and b.ordering_key = k.ordering_key
                  and b.holds) as seq
         from unnest($3::text[]) as k (ordering_key)
     )
     update webhook_queue d
        set parked = false
       from heads
      where d.tenant_id = $1 and d.endpoint_id = $2 and d.ordering_key = heads.ordering_key
        and d.parked
        and d.seq <= coalesce(heads.seq, 9223372036854775807)`,
    [id.tenantId, id.endpointId, keys],
  );
}

/** Unparks all deliveries of these conversations. Runs under the endpoint's lock. */
export async function unparkAll(client: Queryable, id: EndpointId, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await withoutAnswer(client).query(
    `update webhook_queue
        set parked = false
      where tenant_id = $1 and endpoint_id = $2 and ordering_key = any($3::text[])
        and parked`,
    [id.tenantId, id.endpointId, keys],
  );
}
