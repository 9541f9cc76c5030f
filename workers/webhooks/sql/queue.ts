import type { Queryable } from '../../../shared/postgres/pool.ts';
import { epochMs, toDate } from '../../../shared/postgres/times.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';

/**
 * A queued delivery of an endpoint. The creation time determines the partition of the delivery's
 * message.
 */
export interface DeliveryId {
  readonly createdAtMs: number;
  readonly messageId: string;
}

/** A due delivery before it is claimed. */
export interface DueDelivery extends DeliveryId {
  readonly orderingKey: string | null;
  /** Number of attempts that have begun. */
  readonly attempts: number;
  /**
   * Whether a lease expired without a result, because the sender died or could not reach the
   * database.
   */
  readonly leaseExpired: boolean;
  /** Whether the delivery must wait for an earlier delivery of its conversation. */
  readonly held: boolean;
}

/**
 * Returns due deliveries of one endpoint, oldest first. A delivery is held while an earlier
 * delivery of its conversation has a hold. If an earlier hold expired and the endpoint has had no
 * success since that delivery first failed, the conversation is sent unordered. Runs under the
 * endpoint's lock.
 */
export async function findDueDeliveries(
  client: Queryable,
  id: EndpointId,
  options: { readonly nowMs: number; readonly lastSuccessAtMs: number | null; readonly limit: number },
): Promise<DueDelivery[]> {
  const { rows } = await client.query<DueDelivery>(
    `select ${epochMs('d.created_at')} as "createdAtMs", d.message_id as "messageId",
            d.ordering_key as "orderingKey", d.attempts, d.lease_token is not null as "leaseExpired",
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
    [id.tenantId, id.endpointId, new Date(options.nowMs), toDate(options.lastSuccessAtMs), options.limit],
  );
  return rows;
}

/**
 * Returns the number of an endpoint's deliveries in flight, in all dispatchers. Runs under the
 * endpoint's lock.
 */
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

/** A delivery under lease, with the bytes to send. */
export interface LeasedDelivery extends DeliveryId {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly body: Buffer;
}

/**
 * Leases deliveries: counts the attempt and hides them from other dispatchers until `untilMs`.
 * Skips deliveries without a body: the partition of the message was dropped before the body was
 * copied to the queue. Runs under the endpoint's lock. The limits on `m.created_at` are constants,
 * so that the planner opens only the partitions of these messages.
 */
export async function leaseDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly DeliveryId[],
  lease: { readonly token: string; readonly untilMs: number },
): Promise<LeasedDelivery[]> {
  const { rows } = await client.query<LeasedDelivery>(
    `update webhook_queue q
        set attempts = q.attempts + 1, lease_token = $3, due_at = $4
       from unnest($5::timestamptz[], $6::text[]) as given (created_at, message_id)
       left join webhook_messages m
         on m.tenant_id = $1 and m.created_at = any($5::timestamptz[])
        and m.created_at = given.created_at and m.message_id = given.message_id
      where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = given.message_id
        and (q.body is not null or m.body is not null)
     returning ${epochMs('q.created_at')} as "createdAtMs", q.message_id as "messageId", q.attempts as attempt,
               coalesce(q.body, m.body) as body`,
    [
      id.tenantId,
      id.endpointId,
      lease.token,
      new Date(lease.untilMs),
      deliveries.map(({ createdAtMs }) => new Date(createdAtMs)),
      deliveries.map(({ messageId }) => messageId),
    ],
  );
  return rows;
}

/** A delivery and the time of its next attempt. */
export interface PostponedDelivery extends DeliveryId {
  readonly dueAtMs: number;
}

/**
 * Ends the expired leases of deliveries, which are claimed again when due. Each lost lease counts
 * as a failure, so that the hold on later deliveries of the conversation ends in time. Runs under
 * the endpoint's lock.
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

/**
 * Returns one creation time, in milliseconds, for each week with queued deliveries of an endpoint.
 */
export async function findQueuedWeeks(db: Queryable, id: EndpointId): Promise<number[]> {
  // Weeks begin on Mondays, but the epoch began on a Thursday.
  const { rows } = await db.query<Pick<DeliveryId, 'createdAtMs'>>(
    `select ${epochMs('min(created_at)')} as "createdAtMs"
       from webhook_queue
      where tenant_id = $1 and endpoint_id = $2
      group by floor((extract(epoch from created_at) - 345600) / 604800)`,
    [id.tenantId, id.endpointId],
  );
  return rows.map(({ createdAtMs }) => createdAtMs);
}
