import { createHash } from 'node:crypto';
import { epochMs, toMs } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

/**
 * Erasures exclude the batches of one tenant by advisory locks. Tenants share {@link LOCK_SLOTS} of
 * them, because a batch holds the locks of all its tenants and the server's lock table is bounded.
 */
const LOCK_CLASS = 0x51_1c_e1;
const LOCK_SLOTS = 64;
/**
 * The lock of erasures of the previous release, for all tenants: in an upgrade, workers are
 * replaced before admin listeners.
 */
const PREVIOUS_LOCK = 7_284_417_003;

export interface ConversationOfTenant {
  readonly tenantId: string;
  readonly conversationId: string;
}

/**
 * Locks out erasures of these tenants until the caller's transaction has ended, and waits for those
 * being recorded. Without it, an erasure could miss uncommitted rows whose writer had checked
 * before the erasure was visible.
 */
export async function holdErasures(db: Queryable, tenantIds: readonly string[]): Promise<void> {
  // Always in the same order: a batch that waits for one slot must not hold a later one.
  const slots = [...new Set(tenantIds.map(slotOf))].sort((a, b) => a - b);
  await db.query('select pg_advisory_xact_lock_shared($1)', [PREVIOUS_LOCK]);
  await db.query('select pg_advisory_xact_lock_shared($1::int, slot) from unnest($2::int[]) as slot', [
    LOCK_CLASS,
    slots,
  ]);
}

/**
 * Locks out the tenant's batches until the caller's transaction has ended, and waits for those in
 * progress.
 */
export async function holdWriters(db: Queryable, tenantId: string): Promise<void> {
  await db.query('select pg_advisory_xact_lock($1::int, $2::int)', [LOCK_CLASS, slotOf(tenantId)]);
}

function slotOf(tenantId: string): number {
  return createHash('sha256').update(tenantId).digest().readUInt32BE(0) % LOCK_SLOTS;
}

/**
 * Returns when the credentials of these conversations were last erased on request; others are left
 * out.
 */
export async function findErasures(
  db: Queryable,
  conversations: readonly ConversationOfTenant[],
): Promise<(ConversationOfTenant & { readonly erasedAtMs: number })[]> {
  const { rows } = await db.query<{ tenant_id: string; conversation_id: string; erased_at_ms: bigint }>(
    `select tenant_id, conversation_id, ${epochMs('erased_at')} as erased_at_ms
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
    erasedAtMs: toMs(row.erased_at_ms),
  }));
}

/** Deletes up to `rowsMax` erasures that are older than `beforeMs`, and returns their number. */
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
