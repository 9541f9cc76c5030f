import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import type { ErasureScope } from '../erase/scope.ts';
import { deleteEventKeys } from './erase-event-keys.ts';

const ROWS_MAX = 1000;

/**
 * Deletes submissions of credentials, at most 1000, with their ids, and blanks them in the audit.
 * Resolves with the numbers of rows.
 */
export async function deleteCredentials(
  pool: Pool,
  { tenantId, conversationIds, customers, erasedAtMs }: ErasureScope,
): Promise<{ readonly credentials: number; readonly keys: number; readonly reads: number }> {
  return await inTransaction(pool, async (db) => {
    const { rows } = await db.query<{ eventId: string }>(
      `delete from credentials
        where tenant_id = $1 and (conversation_id, event_id) in (
          select conversation_id, event_id from credentials
           where tenant_id = $1 and accepted_at <= $4
             and (conversation_id = any($2::text[]) or customer_external_id = any($3::text[]))
           limit $5
        )
       returning event_id as "eventId"`,
      [tenantId, conversationIds, customers, new Date(erasedAtMs), ROWS_MAX],
    );
    const eventIds = rows.map(({ eventId }) => eventId);
    if (eventIds.length === 0) return { credentials: 0, keys: 0, reads: 0 };
    const keys = await deleteEventKeys(db, tenantId, 'credentials', eventIds);
    const { rowCount } = await db.query(
      'update credential_reads set event_id = null where tenant_id = $1 and event_id = any($2::text[])',
      [tenantId, eventIds],
    );
    return { credentials: eventIds.length, keys, reads: rowCount ?? 0 };
  });
}

/** Blanks conversations in the audit of credentials. Resolves with the number of entries. */
export async function blankCredentialReads(
  pool: Pool,
  { tenantId, conversationIds, erasedAtMs }: ErasureScope,
): Promise<number> {
  const { rowCount } = await pool.query(
    `update credential_reads set conversation_id = '', event_id = null
      where tenant_id = $1 and conversation_id = any($2::text[]) and read_at <= $3`,
    [tenantId, conversationIds, new Date(erasedAtMs)],
  );
  return rowCount ?? 0;
}

/** Deletes earlier erasures of credentials alone, which name the conversation. */
export async function deleteCredentialErasures(
  pool: Pool,
  { tenantId, conversationIds, erasedAtMs }: ErasureScope,
): Promise<number> {
  const { rowCount } = await pool.query(
    `delete from credential_erasures
      where tenant_id = $1 and conversation_id = any($2::text[]) and erased_at <= $3`,
    [tenantId, conversationIds, new Date(erasedAtMs)],
  );
  return rowCount ?? 0;
}
