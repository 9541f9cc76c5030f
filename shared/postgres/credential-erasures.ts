import type { Queryable } from './pool.ts';

/** Any number will do, as long as nothing else in this database takes the same advisory lock. */
const ERASURES_LOCK = 7_284_417_003;

export interface ConversationOfTenant {
  readonly tenantId: string;
  readonly conversationId: string;
}

/**
 * Keeps erasures waiting until the caller's transaction has ended, and waits for those under way. Without it an erasure
 * could miss rows that are not committed yet, whose writer had looked before the erasure could be seen.
 */
export async function holdErasures(db: Queryable): Promise<void> {
  await db.query('select pg_advisory_xact_lock_shared($1)', [ERASURES_LOCK]);
}

/** The other side: waits for the writers under way, and keeps others waiting until the transaction has ended. */
export async function holdWriters(db: Queryable): Promise<void> {
  await db.query('select pg_advisory_xact_lock($1)', [ERASURES_LOCK]);
}

/** When the credentials of these conversations were last erased on request; those that never were are left out. */
export async function findErasures(
  db: Queryable,
  conversations: readonly ConversationOfTenant[],
): Promise<(ConversationOfTenant & { readonly erasedAtMs: number })[]> {
  const { rows } = await db.query<{ tenant_id: string; conversation_id: string; erased_at: Date }>(
    `select tenant_id, conversation_id, erased_at
       from credential_erasures
      where (tenant_id, conversation_id) in (select * from unnest($1::text[], $2::text[]))`,
    [
      conversations.map(({ tenantId }) => tenantId),
      conversations.map(({ conversationId }) => conversationId),
    ],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    conversationId: row.conversation_id,
    erasedAtMs: row.erased_at.getTime(),
  }));
}

/** Deletes up to `rowsMax` erasures from before `beforeMs`, and resolves with their number. */
export async function sweepErasures(db: Queryable, beforeMs: number, rowsMax: number): Promise<number> {
  const result = await db.query(
    `delete from credential_erasures where (tenant_id, conversation_id) in (
       select tenant_id, conversation_id from credential_erasures
       where erased_at < $1 order by erased_at limit $2 for update skip locked
     )`,
    [new Date(beforeMs), rowsMax],
  );
  return result.rowCount ?? 0;
}
