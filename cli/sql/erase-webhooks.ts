import { orderingKeysOf } from '../../shared/postgres/deliveries/delivery.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { ErasureScope } from '../erase/scope.ts';

const MESSAGES_MAX = 50;

/** A webhook whose body contains a text that is searched for. */
export interface FoundWebhook {
  readonly id: string;
  readonly createdAtMs: number;
  readonly body: Buffer;
}

/** Resolves with webhooks of a week after another one, whose body contains one of the texts, at most 50. */
export async function findWebhooks(
  db: Queryable,
  partition: string,
  query: { readonly tenantId: string; readonly texts: readonly Buffer[]; readonly createdToMs: number },
  after: FoundWebhook | undefined,
): Promise<FoundWebhook[]> {
  const { rows } = await db.query<FoundWebhook>(
    `select m.message_id as id, ${epochMs('m.created_at')} as "createdAtMs", m.body
       from ${partition} m
      where m.tenant_id = $1 and m.created_at <= $2 and (m.created_at, m.message_id) > ($4::timestamptz, $5::text)
        and exists (select 1 from unnest($3::bytea[]) as text where position(text in m.body) > 0)
      order by m.created_at, m.message_id limit $6`,
    [
      query.tenantId,
      new Date(query.createdToMs),
      query.texts,
      new Date(after?.createdAtMs ?? 0),
      after?.id ?? '',
      MESSAGES_MAX,
    ],
  );
  return rows;
}

/** Resolves with waiting webhooks after another one, with a body of their own that contains one of the texts. */
export async function findQueuedBodies(
  db: Queryable,
  tenantId: string,
  texts: readonly Buffer[],
  after: FoundWebhook | undefined,
): Promise<FoundWebhook[]> {
  const { rows } = await db.query<FoundWebhook>(
    `select distinct on (q.message_id) q.message_id as id, ${epochMs('q.created_at')} as "createdAtMs", q.body
       from webhook_queue q
      where q.tenant_id = $1 and q.body is not null and q.message_id > $3
        and exists (select 1 from unnest($2::bytea[]) as text where position(text in q.body) > 0)
      order by q.message_id limit $4`,
    [tenantId, texts, after?.id ?? '', MESSAGES_MAX],
  );
  return rows;
}

/** Resolves with the ids of events of erased conversations that were accepted after the erasure. */
export async function findLaterEvents(
  db: Queryable,
  { tenantId, conversations, erasedAtMs }: ErasureScope,
): Promise<string[]> {
  if (conversations.length === 0) return [];
  const { rows } = await db.query<{ id: string }>(
    `select event_id as id from automation_events
      where tenant_id = $1 and external_conversation_id = any($2::text[]) and accepted_at > $3`,
    [tenantId, conversations, new Date(erasedAtMs)],
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
    [tenantId, orderingKeysOf([...conversations, ...conversationIds])],
  );
  return rowCount ?? 0;
}
