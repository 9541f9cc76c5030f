import type { Queryable } from '../../shared/postgres/pool.ts';

/** Resolves with the service's ids of conversations with these external ids, wherever the two meet. */
export async function findConversationIds(
  db: Queryable,
  tenantId: string,
  externalIds: readonly string[],
): Promise<string[]> {
  if (externalIds.length === 0) return [];
  const { rows } = await db.query<{ id: string }>(
    `select distinct id
       from (${pairs('conversation_id', 'external_conversation_id')}) as pair
      where id <> ''`,
    [tenantId, externalIds],
  );
  return rows.map(({ id }) => id);
}

/** Resolves with the external ids of conversations with these ids of the service. */
export async function findExternalIds(
  db: Queryable,
  tenantId: string,
  conversationIds: readonly string[],
): Promise<string[]> {
  if (conversationIds.length === 0) return [];
  const { rows } = await db.query<{ id: string }>(
    `select distinct id
       from (${pairs('external_conversation_id', 'conversation_id')}) as pair
      where id <> ''`,
    [tenantId, conversationIds],
  );
  return rows.map(({ id }) => id);
}

/** Resolves with whether a conversation with this external id is stored. */
export async function isConversation(db: Queryable, tenantId: string, externalId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from conversations where tenant_id = $1 and external_conversation_id = $2
      union all
     select 1 from conversation_states where tenant_id = $1 and external_conversation_id = $2`,
    [tenantId, externalId],
  );
  return rowCount !== 0;
}

const PAIRS = [
  'automation_events',
  'automation_event_bases',
  'conversation_states',
  'conversation_id_pairs',
  'message_sent',
  'message_sent_conversations',
];

/** Returns a query of one id of the conversations that have one of the other ids. */
function pairs(column: string, by: string): string {
  return PAIRS.map(
    (table) =>
      `select t.${column} as id from ${table} t where t.tenant_id = $1 and t.${by} = any($2::text[])`,
  ).join(' union ');
}

/** Resolves with the service's ids of the conversations in which customers submitted credentials. */
export async function findConversationsOfCustomers(
  db: Queryable,
  tenantId: string,
  customerIds: readonly string[],
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select distinct conversation_id as id from credentials
      where tenant_id = $1 and customer_external_id = any($2::text[])`,
    [tenantId, customerIds],
  );
  return rows.map(({ id }) => id);
}
