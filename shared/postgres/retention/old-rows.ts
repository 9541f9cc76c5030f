import type { Pool } from '../pool.ts';

const ROWS_MAX = 1000;

interface CredentialsId {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly eventId: string;
}

/**
 * Deletes the rows of credentials that were accepted before this time and are erased, and resolves
 * with their number.
 */
export async function deleteOldCredentials(pool: Pool, acceptedBeforeMs: number): Promise<number> {
  let deleted = 0;
  for (;;) {
    const { rows } = await pool.query<CredentialsId>(
      `select tenant_id as "tenantId", conversation_id as "conversationId", event_id as "eventId"
         from credentials
        where accepted_at < $1 and ciphertext is null
        limit $2`,
      [new Date(acceptedBeforeMs), ROWS_MAX],
    );
    for (const tenantId of new Set(rows.map((row) => row.tenantId))) {
      const ofTenant = rows.filter((row) => row.tenantId === tenantId);
      const { rowCount } = await pool.query(
        `delete from credentials
          where tenant_id = $1 and (conversation_id, event_id) in (
            select conversation_id, event_id from unnest($2::text[], $3::text[]) as old (conversation_id, event_id)
          )`,
        [
          tenantId,
          ofTenant.map(({ conversationId }) => conversationId),
          ofTenant.map(({ eventId }) => eventId),
        ],
      );
      deleted += rowCount ?? 0;
    }
    if (rows.length < ROWS_MAX) return deleted;
  }
}

/** Deletes the entries of the audit of erasures that were completed, and are older than this time. */
export async function deleteOldErasures(pool: Pool, beforeMs: number): Promise<void> {
  await pool.query('delete from erasures where erased_at < $1 and finished_at is not null', [
    new Date(beforeMs),
  ]);
}
