import type { Queryable } from '../pool.ts';
import { isoTime } from '../times.ts';
import { notifyDispatchers } from '../webhook-notifications.ts';
import { AGAIN } from './delivery.ts';
import type { StoredMessage } from './record-deliveries.ts';

/** Ended deliveries to queue again. */
export interface Requeue {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly messages: readonly StoredMessage[];
  /** The states in which they must have ended. */
  readonly states: readonly string[];
  readonly nowMs: number;
}

/**
 * Moves ended deliveries whose bodies are stored back to the queue, and resolves with their number. They
 * keep their `webhook-id`, and their order among themselves, but not towards newer ones of their
 * conversation: see {@link AGAIN}. A delivery is in one table, so that it cannot be queued twice.
 */
export async function requeueDeliveries(db: Queryable, requeue: Requeue): Promise<number> {
  const { tenantId, endpointId, messages, states, nowMs } = requeue;
  if (messages.length === 0) return 0;
  const { rowCount } = await db.query(
    `with moved as (
       delete from webhook_deliveries d
        using unnest($3::timestamptz[], $4::text[]) as given (created_at, message_id)
         join webhook_messages m
           on m.tenant_id = $1 and m.created_at = any($5::timestamptz[])
          and m.created_at = given.created_at and m.message_id = given.message_id
        where d.tenant_id = $1 and d.endpoint_id = $2 and d.created_at = any($5::timestamptz[])
          and d.created_at = given.created_at and d.message_id = given.message_id and d.state = any($6::text[])
       returning d.message_id, d.created_at, d.seq, d.ordering_key
     )
     insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at)
     select $1, $2, message_id, created_at, seq,
            case when starts_with(ordering_key, $7) then ordering_key else $7 || ordering_key end, $8::timestamptz
       from moved
      order by seq
         on conflict do nothing
     returning message_id`,
    [
      tenantId,
      endpointId,
      messages.map(({ createdAtMs }) => isoTime(createdAtMs)),
      messages.map(({ messageId }) => messageId),
      [...new Set(messages.map(({ createdAtMs }) => isoTime(createdAtMs)))],
      states,
      AGAIN,
      isoTime(nowMs),
    ],
  );
  if (rowCount) await notifyDispatchers(db, { tenantId, endpointId });
  return rowCount ?? 0;
}
