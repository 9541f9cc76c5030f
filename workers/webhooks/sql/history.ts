import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import type { DeliveryId } from './queue.ts';

/** Moves deliveries to the history without a further attempt. Runs under the endpoint's lock. */
export async function finishDeliveries(
  client: Queryable,
  id: EndpointId,
  deliveries: readonly Pick<DeliveryId, 'messageId'>[],
  state: 'failed' | 'dropped',
  nowMs: number,
): Promise<void> {
  if (deliveries.length === 0) return;
  await client.query(
    moveToHistory(
      `delete from webhook_queue q
        where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = any($5::text[])
       returning ${HISTORY_COLUMNS}, q.first_failed_at, $3::text as state, $4::timestamptz as finished_at`,
    ),
    [id.tenantId, id.endpointId, state, new Date(nowMs), deliveries.map(({ messageId }) => messageId)],
  );
}

/**
 * Drops up to `limit` waiting deliveries of a disabled or deleted endpoint, and resolves with their
 * number. Deliveries in flight keep their lease. Runs under the endpoint's lock.
 */
export async function dropWaiting(
  client: Queryable,
  id: EndpointId,
  options: { readonly nowMs: number; readonly limit: number },
): Promise<number> {
  const result = await client.query(
    moveToHistory(
      `delete from webhook_queue q
        using (select w.message_id
                 from webhook_queue w
                where w.tenant_id = $1 and w.endpoint_id = $2 and (w.lease_token is null or w.due_at <= $3)
                limit $4) as waiting
        where q.tenant_id = $1 and q.endpoint_id = $2 and q.message_id = waiting.message_id
       returning ${HISTORY_COLUMNS}, q.first_failed_at, 'dropped' as state, $3::timestamptz as finished_at`,
    ),
    [id.tenantId, id.endpointId, new Date(options.nowMs), options.limit],
  );
  return result.rowCount ?? 0;
}

/**
 * Returns SQL that moves deliveries from the queue to the history. `ended` is a statement that
 * deletes rows of webhook_queue `q` and returns HISTORY_COLUMNS, state, first_failed_at and
 * finished_at. Postgres refuses a row whose week has no partition with SQLSTATE 23514.
 */
export function moveToHistory(ended: string): string {
  return `with ended as (${ended}) ${INSERT_ENDED}`;
}

/** Inserts the rows of `ended` into the history. */
export const INSERT_ENDED = `insert into webhook_deliveries
       (tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, attempts, holds,
        state, due_at, first_failed_at, finished_at)
     select tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, attempts, holds,
            state, finished_at, first_failed_at, finished_at
       from ended`;

/** Columns that the history stores unchanged. */
export const HISTORY_COLUMNS =
  'q.tenant_id, q.endpoint_id, q.created_at, q.message_id, q.seq, q.ordering_key, q.attempts, q.holds';
