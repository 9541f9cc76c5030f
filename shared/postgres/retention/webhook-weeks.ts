import type { Pool, Queryable } from '../pool.ts';

/** Bodies copied per statement: with bodies of 1 KiB, some 10 ms of work. */
const ROWS_MAX = 1000;

/**
 * Resolves with whether a week of webhook_deliveries has deliveries that wait. Releases before the
 * queue left them there, and a dispatcher moves them to the queue.
 */
export async function hasWaiting(db: Queryable, partition: string): Promise<boolean> {
  const { rows } = await db.query<{ waits: boolean }>(
    `select exists (select 1 from ${partition} where state = 'pending') as waits`,
  );
  return rows[0]!.waits;
}

/**
 * Copies the bodies of a week of webhook_messages to the deliveries in the queue that need them.
 * Skips deliveries that a dispatcher has locked, until they are free.
 */
export async function copyBodies(
  pool: Pool,
  partition: string,
  week: { readonly fromMs: number; readonly toMs: number },
  tenantIds: readonly string[],
): Promise<void> {
  for (const tenantId of tenantIds) {
    let copied = ROWS_MAX;
    while (copied === ROWS_MAX) copied = await copySome(pool, partition, week, tenantId);
  }
}

async function copySome(
  pool: Pool,
  partition: string,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  tenantId: string,
): Promise<number> {
  const { rowCount } = await pool.query(
    `with waiting as (
       select w.endpoint_id, w.message_id
         from webhook_queue w
        where w.tenant_id = $1 and w.created_at >= $2 and w.created_at < $3 and w.body is null
        order by w.endpoint_id, w.message_id
        limit $4
          for update of w
     )
     update webhook_queue q set body = m.body
       from waiting, ${partition} m
      where q.tenant_id = $1 and q.endpoint_id = waiting.endpoint_id and q.message_id = waiting.message_id
        and m.tenant_id = $1 and m.created_at = q.created_at and m.message_id = q.message_id`,
    [tenantId, new Date(fromMs), new Date(toMs), ROWS_MAX],
  );
  return rowCount ?? 0;
}
