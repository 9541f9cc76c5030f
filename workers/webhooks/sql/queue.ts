import type { Queryable } from '../../../shared/postgres/pool.ts';
import { epochMs, toDate } from '../../../shared/postgres/times.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { onShards } from '../../sql/by-tenant.ts';

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
  /** The position in the order of its conversation. */
  readonly seq: bigint;
  readonly dueAtMs: number;
  /** Number of attempts that have begun. */
  readonly attempts: number;
  /**
   * Whether a lease expired without a result, because the sender died or could not reach the
   * database.
   */
  readonly leaseExpired: boolean;
  /** The last earlier delivery of its conversation that has a hold; null: none. */
  readonly heldBy: bigint | null;
  /** Whether it need not wait for earlier deliveries, because its conversation is sent unordered. */
  readonly released: boolean;
}

export interface DuePage {
  readonly nowMs: number;
  readonly lastSuccessAtMs: number | null;
  /** Where the page begins. Default: at the oldest delivery. */
  readonly after?: { readonly dueAtMs: number; readonly seq: bigint } | undefined;
  readonly limit: number;
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
  { nowMs, lastSuccessAtMs, after, limit }: DuePage,
): Promise<DueDelivery[]> {
  const { rows } = await client.query<DueDelivery>(
    `select ${epochMs('d.created_at')} as "createdAtMs", d.message_id as "messageId",
            d.ordering_key as "orderingKey", d.seq, ${epochMs('d.due_at')} as "dueAtMs", d.attempts,
            d.lease_token is not null as "leaseExpired",
            (select max(b.seq) from webhook_queue b
              where b.tenant_id = $1 and b.endpoint_id = $2 and b.ordering_key = d.ordering_key
                and b.holds and b.seq < d.seq) as "heldBy",
            exists (select 1 from webhook_queue f
                     where f.tenant_id = $1 and f.endpoint_id = $2 and f.ordering_key = d.ordering_key
                       and not f.holds and f.seq < d.seq
                       and ($4::timestamptz is null or f.first_failed_at > $4)) as released
       from webhook_queue d
      where d.tenant_id = $1 and d.endpoint_id = $2
        and not d.parked and d.due_at <= $3
        and ($6::timestamptz is null or (d.due_at, d.seq) > ($6, $7::bigint))
      order by d.due_at, d.seq
      limit $5`,
    [
      id.tenantId,
      id.endpointId,
      new Date(nowMs),
      toDate(lastSuccessAtMs),
      limit,
      toDate(after?.dueAtMs ?? null),
      after?.seq ?? null,
    ],
  );
  return rows;
}

/** Returns the number of leased deliveries of an endpoint. */
export type LeasedBy = (id: EndpointId) => number;

/**
 * Returns the number of deliveries that other dispatchers have in flight, by endpoint. `ownTokens`
 * is the prefix of the caller's lease tokens. Runs under the endpoints' locks.
 */
export async function countLeasedByOthers(
  client: Queryable,
  ids: readonly EndpointId[],
  { nowMs, ownTokens }: { readonly nowMs: number; readonly ownTokens: string },
): Promise<LeasedBy> {
  const { rows } = await client.query<EndpointId & { leased: number }>(
    `select q.tenant_id as "tenantId", q.endpoint_id as "endpointId", count(*)::int as leased
       from unnest($1::text[], $2::text[]) as given (tenant_id, endpoint_id)
       join webhook_queue q on q.tenant_id = given.tenant_id and q.endpoint_id = given.endpoint_id
      where q.lease_token is not null and q.due_at > $3 and not starts_with(q.lease_token, $4)
      group by q.tenant_id, q.endpoint_id`,
    [
      ids.map(({ tenantId }) => tenantId),
      ids.map(({ endpointId }) => endpointId),
      new Date(nowMs),
      ownTokens,
    ],
  );
  return (id) =>
    rows.find((row) => row.tenantId === id.tenantId && row.endpointId === id.endpointId)?.leased ?? 0;
}

/** A delivery of any endpoint. */
export interface QueuedDelivery extends EndpointId, DeliveryId {
  readonly attempts: number;
}

/** The bytes to send of a delivery that was leased. */
export interface LeasedBody extends EndpointId {
  readonly messageId: string;
  readonly body: Buffer;
  /**
   * W3C trace context of the record; null: it had none, or the partition of its message was dropped.
   */
  readonly traceparent: string | null;
}

/**
 * Leases deliveries: counts the attempt and hides them from other dispatchers until `untilMs`.
 * Skips deliveries that another dispatcher has claimed or ended since they were read, and
 * deliveries without a body, because the partition of the message was dropped before the body was
 * copied to the queue. Runs under the endpoints' locks. The creation times in `$7` are constants,
 * so that the planner opens only the partitions of these messages.
 */
export async function leaseDeliveries(
  client: Queryable,
  deliveries: readonly QueuedDelivery[],
  lease: { readonly token: string; readonly untilMs: number },
): Promise<LeasedBody[]> {
  return await onShards(client, deliveries, async (part, tenantOf) => {
    const values: unknown[] = [
      ...queuedColumns(part),
      lease.token,
      new Date(lease.untilMs),
      [...new Set(part.map(({ createdAtMs }) => createdAtMs))].map((ms) => new Date(ms)),
      part.map(({ createdAtMs }) => new Date(createdAtMs)),
    ];
    return await client.query<LeasedBody>(
      `update webhook_queue q
          set attempts = q.attempts + 1, lease_token = $5, due_at = $6
         from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $8::timestamptz[])
                as given (tenant_id, endpoint_id, message_id, attempts, created_at)
         left join webhook_messages m
           on m.tenant_id = ${tenantOf('given', values)} and m.created_at = any($7::timestamptz[])
          and m.created_at = given.created_at and m.message_id = given.message_id
        where q.tenant_id = ${tenantOf('given', values)} and ${IS_UNCHANGED} and (q.body is not null or m.body is not null)
       returning q.tenant_id as "tenantId", q.endpoint_id as "endpointId", q.message_id as "messageId",
                 coalesce(q.body, m.body) as body, m.traceparent`,
      values,
    );
  });
}

/** Returns the ids of deliveries that {@link leaseDeliveries} skipped because they have no body. */
export async function findWithoutBody(
  client: Queryable,
  skipped: readonly QueuedDelivery[],
): Promise<(EndpointId & Pick<DeliveryId, 'messageId'>)[]> {
  const { rows } = await client.query<EndpointId & Pick<DeliveryId, 'messageId'>>(
    `select q.tenant_id as "tenantId", q.endpoint_id as "endpointId", q.message_id as "messageId"
       from unnest($1::text[], $2::text[], $3::text[], $4::integer[])
              as given (tenant_id, endpoint_id, message_id, attempts)
       join webhook_queue q on q.tenant_id = given.tenant_id and ${IS_UNCHANGED}`,
    queuedColumns(skipped),
  );
  return rows;
}

const IS_UNCHANGED = `q.endpoint_id = given.endpoint_id and q.message_id = given.message_id
  and q.attempts = given.attempts and q.lease_token is null and not q.parked`;

function queuedColumns(deliveries: readonly QueuedDelivery[]): unknown[] {
  return [
    deliveries.map(({ tenantId }) => tenantId),
    deliveries.map(({ endpointId }) => endpointId),
    deliveries.map(({ messageId }) => messageId),
    deliveries.map(({ attempts }) => attempts),
  ];
}

/** A delivery whose sender died, and when its next attempt is due. */
export interface LostDelivery {
  readonly messageId: string;
  readonly dueAtMs: number;
  /** Whether the loss counts as a failure, so that the hold on later deliveries ends in time. */
  readonly failed: boolean;
}

/** Ends the expired leases of deliveries. Runs under the endpoint's lock. */
export async function endLostLeases(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly LostDelivery[],
  nowMs: number,
): Promise<void> {
  if (deliveries.length === 0) return;
  await client.query(
    `update webhook_queue q
        set due_at = given.due_at, lease_token = null,
            first_failed_at = case when given.failed then coalesce(q.first_failed_at, $3) else q.first_failed_at end
       from unnest($4::text[], $5::timestamptz[], $6::boolean[]) as given (message_id, due_at, failed)
      where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = given.message_id`,
    [
      id.tenantId,
      id.endpointId,
      new Date(nowMs),
      deliveries.map(({ messageId }) => messageId),
      deliveries.map(({ dueAtMs }) => new Date(dueAtMs)),
      deliveries.map(({ failed }) => failed),
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
