import { ERASED_TEXT, erasedRecordId } from '../../shared/postgres/erased-ids.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { ErasureScope } from '../erase/scope.ts';
import { replaceEventKeys } from './erase-event-keys.ts';

/** The tables of the weeks of a partitioned table, oldest first. */
export async function listPartitions(db: Queryable, table: string): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = $1::text::regclass and not i.inhdetachpending order by c.relname`,
    [table],
  );
  return rows.map(({ name }) => name);
}

const ROWS_MAX = 1000;

/** Blanks messages of a week, at most 1000, and resolves with the numbers of rows. */
export async function blankMessages(
  pool: Pool,
  partition: string,
  scope: ErasureScope,
): Promise<{ readonly messages: number; readonly keys: number }> {
  const { tenantId, conversationIds, conversations, erasedAtMs } = scope;
  return await inTransaction(pool, async (db) => {
    const { rows } = await db.query<{ id: string; acceptedAtMs: number }>(
      `select m.message_id as id, ${epochMs('m.accepted_at')} as "acceptedAtMs"
         from ${partition} m
        where m.tenant_id = $1 and m.accepted_at <= $4
          and (m.conversation_id = any($2::text[]) or m.external_conversation_id = any($3::text[]))
        order by m.message_id limit $5`,
      [tenantId, conversationIds, conversations, new Date(erasedAtMs), ROWS_MAX],
    );
    if (rows.length === 0) return { messages: 0, keys: 0 };
    const changed = rows.map(({ id, acceptedAtMs }) => ({
      acceptedAtMs,
      before: id,
      after: erasedRecordId(tenantId, id),
    }));
    const keys = await replaceEventKeys(db, tenantId, 'message-sent', changed);
    await db.query(
      `update ${partition} m
          set message_id = changed.after, conversation_id = '', external_conversation_id = null, request_id = '',
              initial_suggestions_id = ${blank('initial_suggestions_id')},
              selected_suggestion_text = ${blank('selected_suggestion_text')},
              selected_suggestions_id = ${blank('selected_suggestions_id')}
         from unnest($2::timestamptz[], $3::text[], $4::text[]) as changed (accepted_at, before, after)
        where m.tenant_id = $1 and m.accepted_at = changed.accepted_at and m.message_id = changed.before`,
      [
        tenantId,
        changed.map(({ acceptedAtMs }) => new Date(acceptedAtMs)),
        changed.map(({ before }) => before),
        changed.map(({ after }) => after),
      ],
    );
    return { messages: rows.length, keys };
  });
}

/** Returns the expression of a blanked text: counts depend on whether it was empty. */
function blank(column: string): string {
  return `case when m.${column} = '' then '' else '${ERASED_TEXT}' end`;
}
