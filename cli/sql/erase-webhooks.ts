import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import type { ErasureScope } from '../erase/scope.ts';

const MESSAGES_MAX = 200;

/** Resolves with ids of webhooks of a week whose body contains one of the texts, at most 200. */
export async function findWebhooks(
  db: Queryable,
  partition: string,
  query: { readonly tenantId: string; readonly texts: readonly Buffer[]; readonly createdToMs: number },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select m.message_id as id
       from ${partition} m
      where m.tenant_id = $1 and m.created_at <= $2
        and exists (select from unnest($3::bytea[]) as text where position(text in m.body) > 0)
      limit $4`,
    [query.tenantId, new Date(query.createdToMs), query.texts, MESSAGES_MAX],
  );
  return rows.map(({ id }) => id);
}

/** Resolves with ids of waiting webhooks with a body of their own that contains one of the texts. */
export async function findQueuedBodies(
  db: Queryable,
  tenantId: string,
  texts: readonly Buffer[],
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select distinct q.message_id as id
       from webhook_queue q
      where q.tenant_id = $1 and q.body is not null
        and exists (select from unnest($2::bytea[]) as text where position(text in q.body) > 0)
      limit $3`,
    [tenantId, texts, MESSAGES_MAX],
  );
  return rows.map(({ id }) => id);
}

/**
 * Deletes webhooks with their waiting deliveries, and blanks their finished deliveries and the answers of
 * receivers. An attempt in flight is not recorded any more. Resolves with the numbers of rows.
 */
export async function deleteWebhooks(
  pool: Pool,
  tenantId: string,
  messageIds: readonly string[],
): Promise<{ readonly messages: number; readonly waiting: number; readonly attempts: number }> {
  return await inTransaction(pool, async (db) => {
    // Deliveries are changed only under the locks of their endpoints.
    const { rows } = await db.query<{ id: string }>(
      `select endpoint_id as id from webhook_endpoints where tenant_id = $1 order by endpoint_id for update`,
      [tenantId],
    );
    const endpointIds = rows.map(({ id }) => id);
    const given = [tenantId, endpointIds, messageIds];
    const queued = await db.query<{ orderingKey: string | null }>(
      `delete from webhook_queue
        where tenant_id = $1 and endpoint_id = any($2::text[]) and message_id = any($3::text[])
       returning ordering_key as "orderingKey"`,
      given,
    );
    await db.query(
      `update webhook_queue set parked = false
        where tenant_id = $1 and endpoint_id = any($2::text[]) and ordering_key = any($3::text[]) and parked`,
      [tenantId, endpointIds, queued.rows.map(({ orderingKey }) => orderingKey)],
    );
    await db.query(
      `update webhook_deliveries set ordering_key = null
        where tenant_id = $1 and endpoint_id = any($2::text[]) and message_id = any($3::text[])`,
      given,
    );
    const attempts = await db.query(
      `update webhook_attempts set answer = null
        where tenant_id = $1 and endpoint_id = any($2::text[]) and message_id = any($3::text[]) and answer is not null`,
      given,
    );
    const { rowCount } = await db.query(
      'delete from webhook_messages where tenant_id = $1 and message_id = any($2::text[])',
      [tenantId, messageIds],
    );
    return { messages: rowCount ?? 0, waiting: queued.rows.length, attempts: attempts.rowCount ?? 0 };
  });
}

/**
 * Blanks the conversations of finished deliveries, and the answers of their receivers, whose webhooks
 * are deleted already. Resolves with the number of answers.
 */
export async function blankDeliveries(
  pool: Pool,
  { tenantId, conversations, conversationIds }: ErasureScope,
): Promise<number> {
  const { rowCount } = await pool.query(
    `with blanked as (
       update webhook_deliveries set ordering_key = null
        where tenant_id = $1 and ordering_key = any($2::text[])
       returning endpoint_id, message_id
     )
     update webhook_attempts a set answer = null
       from blanked
      where a.tenant_id = $1 and a.endpoint_id = blanked.endpoint_id and a.message_id = blanked.message_id
        and a.answer is not null`,
    [tenantId, [...conversations, ...conversationIds]],
  );
  return rowCount ?? 0;
}
