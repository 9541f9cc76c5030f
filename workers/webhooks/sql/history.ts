/**
 * The SQL that moves deliveries from the queue to the history: `ended` deletes rows of webhook_queue `q` and ends with
 * `returning ${QUEUED_COLUMNS}, …`, giving state, first_failed_at and finished_at too. A row whose week has no partition is refused with
 * SQLSTATE 23514.
 */
export function moveToHistory(ended: string): string {
  return `with ended as (${ended})
     insert into webhook_deliveries
       (tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, attempts, holds,
        state, due_at, first_failed_at, finished_at)
     select tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, attempts, holds,
            state, finished_at, first_failed_at, finished_at
       from ended`;
}

/** What the history keeps of a row of the queue as it was. */
export const QUEUED_COLUMNS =
  'q.tenant_id, q.endpoint_id, q.created_at, q.message_id, q.seq, q.ordering_key, q.attempts, q.holds';
