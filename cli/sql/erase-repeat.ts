import { QUARTER_HOUR_MINUTES } from '../../shared/message-sent/blocks.ts';
import { decodeConversations } from '../../shared/message-sent/delta.ts';
import { type ErasedId, type ErasedSubject, erasedIdHash } from '../../shared/postgres/erased-ids.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';

/** Resolves with the erased ids of these tenants. */
export async function listErasedIds(db: Queryable, tenantIds: readonly string[]): Promise<ErasedId[]> {
  const { rows } = await db.query<ErasedId>(
    `select tenant_id as "tenantId", subject, encode(id_sha256, 'hex') as "idSha256",
            ${epochMs('erased_at')} as "erasedAtMs"
       from erased_ids where tenant_id = any($1::text[])`,
    [tenantIds],
  );
  return rows;
}

const ATTRIBUTE_VALUES = `jsonb_array_elements(
  case json_typeof(patch -> 'attributes') when 'array' then (patch -> 'attributes')::jsonb else '[]' end) ->> 'value'`;

/** Where ids of each subject are stored, as table and column, or expression. */
const PLACES: Readonly<Record<Exclude<ErasedSubject, 'tenant'>, readonly (readonly [string, string])[]>> = {
  agent: [
    ['agents', 'external_agent_id'],
    ['agent_records', 'external_agent_id'],
    ['agent_records', "patch ->> 'supervisorId'"],
    ['agent_bases', "patch ->> 'supervisorId'"],
    ['dead_letters', 'entity'],
  ],
  conversation: [
    ['conversations', 'external_conversation_id'],
    ['conversation_records', 'external_conversation_id'],
    ['conversation_states', 'external_conversation_id'],
    ['automation_events', 'external_conversation_id'],
    ['message_sent', 'external_conversation_id'],
    ['message_sent_conversations', 'external_conversation_id'],
    ['conversation_id_pairs', 'external_conversation_id'],
    ['dead_letters', 'entity'],
  ],
  'conversation-id': [
    ['credentials', 'conversation_id'],
    ['automation_events', 'conversation_id'],
    ['message_sent', 'conversation_id'],
    ['message_sent_conversations', 'conversation_id'],
    ['conversation_id_pairs', 'conversation_id'],
    ['dead_letters', 'entity'],
  ],
  customer: [
    ['credentials', 'customer_external_id'],
    ['conversation_records', ATTRIBUTE_VALUES],
    ['conversation_bases', ATTRIBUTE_VALUES],
  ],
};

/** A block of a busy tenant has megabytes. */
const BLOCKS = 16;

/** Yields the ids of conversations in the counts of messages, which are in the bytes of blocks. */
async function* readBlockIds(
  db: Queryable,
  tenantId: string,
  subject: 'conversation' | 'conversation-id',
): AsyncGenerator<Set<string>> {
  for (let after = new Date(0); ; ) {
    const { rows } = await db.query<{ starts_at: Date; conversations: Buffer }>(
      `select starts_at, conversations from message_sent_blocks
        where tenant_id = $1 and minutes = ${QUARTER_HOUR_MINUTES} and starts_at > $2 order by starts_at limit ${BLOCKS}`,
      [tenantId, after],
    );
    const ids = new Set<string>();
    for (const { conversations } of rows) {
      for (const ofMessages of decodeConversations(conversations)) {
        ids.add(ofMessages[subject === 'conversation' ? 'externalConversationId' : 'conversationId']);
      }
    }
    yield ids;
    if (rows.length < BLOCKS) return;
    after = rows.at(-1)!.starts_at;
  }
}

/** Resolves with the stored ids of a tenant that have one of these hashes. Reads all of the tenant's ids. */
export async function findByHash(
  db: Queryable,
  tenantId: string,
  subject: Exclude<ErasedSubject, 'tenant'>,
  hashes: readonly string[],
): Promise<string[]> {
  const found = new Set<string>();
  for (const [table, column] of PLACES[subject]) {
    const { rows } = await db.query<{ id: string }>(
      `select distinct t.id
         from (select ${column} as id from ${table} where tenant_id = $1) as t
        where encode(sha256(convert_to($1 || ' ' || $2 || ' ' || t.id, 'UTF8')), 'hex') = any($3::text[])`,
      [tenantId, subject, hashes],
    );
    for (const { id } of rows) found.add(id);
  }
  if (subject === 'conversation' || subject === 'conversation-id') {
    const wanted = new Set(hashes);
    for await (const ids of readBlockIds(db, tenantId, subject)) {
      for (const id of ids) if (wanted.has(erasedIdHash(tenantId, subject, id))) found.add(id);
    }
  }
  return [...found];
}
