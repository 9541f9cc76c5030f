import { inTransaction, type Pool, type Queryable } from '../pool.ts';
import { isoTime } from '../times.ts';
import { notifyDispatchers } from '../webhook-notifications.ts';
import { type Delivery, type DeliveryKey, ENDED_STATES } from './delivery.ts';
import { readDelivery } from './find-delivery.ts';
import { requeueDeliveries } from './requeue.ts';

/** What became of the request to send a delivery again. */
export type Redelivered =
  | { readonly kind: 'queued'; readonly delivery: Delivery }
  /** It cannot be sent again now, with the reason for the endpoint's owner. */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unknown' };

/**
 * Queues a tenant's delivery again, whatever its state was; a waiting one becomes due now. The
 * `webhook-id` stays the same.
 */
export async function redeliver(
  pool: Pool,
  tenantId: string,
  key: DeliveryKey,
  nowMs: number,
): Promise<Redelivered> {
  return await inTransaction(
    pool,
    async (db) => {
      // Not locked: dispatchers skip locked endpoints, and callers that repeat this would stop them.
      const { rows } = await db.query<{ state: string }>(
        'select state from webhook_endpoints where tenant_id = $1 and endpoint_id = $2',
        [tenantId, key.endpointId],
      );
      const delivery = await readDelivery(db, tenantId, key, nowMs);
      if (!delivery) return { kind: 'unknown' };
      const reason = refusalOf(rows[0]?.state, delivery);
      if (reason !== undefined) return { kind: 'refused', reason };
      if (delivery.state === 'waiting') await makeDue(db, tenantId, key, nowMs);
      else await requeueDeliveries(db, { tenantId, ...key, messages: [key], states: ENDED_STATES, nowMs });
      const queued = await readDelivery(db, tenantId, key, nowMs);
      if (!queued) return { kind: 'unknown' };
      // Another caller, or a dispatcher, may have changed it meanwhile.
      const lateReason = refusalOf(rows[0]?.state, queued);
      if (lateReason !== undefined) return { kind: 'refused', reason: lateReason };
      return { kind: 'queued', delivery: queued };
    },
    { preferIndexes: true },
  );
}

function refusalOf(
  endpointState: string | undefined,
  { state, dueAtMs, body, createdAtMs }: Delivery & { readonly body: Buffer | null },
): string | undefined {
  if (endpointState === undefined || endpointState === 'deleted') return 'is of an endpoint that was deleted';
  if (endpointState === 'disabled') return 'is of a disabled endpoint: enable the endpoint first';
  if (state === 'in-flight') return 'is being sent now: wait for the result';
  if (state === 'waiting' && dueAtMs === null) return 'waits for an earlier webhook of its conversation';
  if (body === null) {
    return `cannot be sent again: its body was erased, or dropped with the week of ${isoTime(createdAtMs).slice(0, 10)}`;
  }
  return undefined;
}

async function makeDue(db: Queryable, tenantId: string, key: DeliveryKey, nowMs: number): Promise<void> {
  const { rowCount } = await db.query(
    `update webhook_queue set due_at = $4
      where tenant_id = $1 and endpoint_id = $2 and message_id = $3 and lease_token is null and not parked and due_at > $4`,
    [tenantId, key.endpointId, key.messageId, isoTime(nowMs)],
  );
  if (rowCount) await notifyDispatchers(db, { tenantId, endpointId: key.endpointId });
}
