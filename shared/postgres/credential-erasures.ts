import { hash } from 'node:crypto';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

/**
 * The class of the advisory locks by which an erasure excludes the batches of one tenant. Tenants
 * share {@link LOCK_SLOTS} locks, because a batch holds the locks of all its tenants and the
 * server's lock table is limited.
 */
const LOCK_CLASS = 0x51_1c_e1;
const LOCK_SLOTS = 64;
/**
 * The lock that erasures of the previous release take, for all tenants. During an upgrade, workers
 * are replaced before admin listeners.
 */
const PREVIOUS_LOCK = 7_284_417_003;

export interface ConversationOfTenant {
  readonly tenantId: string;
  readonly conversationId: string;
}

/**
 * Blocks erasures of these tenants until the caller's transaction has ended, and waits for erasures
 * that are being recorded. Otherwise an erasure could miss uncommitted rows, if their writer had
 * checked for erasures before this one was visible.
 */
export async function holdErasures(db: Queryable, tenantIds: readonly string[]): Promise<void> {
  // All batches take the locks in ascending order, which prevents deadlocks.
  const slots = [...new Set(tenantIds.map(slotOf))].sort((a, b) => a - b);
  await db.query('select pg_advisory_xact_lock_shared($1)', [PREVIOUS_LOCK]);
  await db.query('select pg_advisory_xact_lock_shared($1::int, slot) from unnest($2::int[]) as slot', [
    LOCK_CLASS,
    slots,
  ]);
}

/**
 * Blocks the tenant's batches until the caller's transaction has ended, and waits for batches in
 * progress.
 */
export async function holdWriters(db: Queryable, tenantId: string): Promise<void> {
  await db.query('select pg_advisory_xact_lock($1::int, $2::int)', [LOCK_CLASS, slotOf(tenantId)]);
}

function slotOf(tenantId: string): number {
  return hash('sha256', tenantId, 'buffer').readUInt32BE(0) % LOCK_SLOTS;
}

/** The time of the last erasure on request of a conversation's credentials. */
export interface RecordedErasure extends ConversationOfTenant {
  readonly erasedAtMs: number;
}

/** Returns the erasures of these conversations. Leaves out conversations without one. */
export async function findErasures(
  db: Queryable,
  conversations: readonly ConversationOfTenant[],
): Promise<RecordedErasure[]> {
  const { rows } = await db.query<RecordedErasure>(
    `select e.tenant_id as "tenantId", e.conversation_id as "conversationId",
            ${epochMs('e.erased_at')} as "erasedAtMs"
       from unnest($1::text[], $2::text[]) as wanted (tenant_id, conversation_id)
       join credential_erasures e
         on e.tenant_id = wanted.tenant_id and e.conversation_id = wanted.conversation_id`,
    [
      conversations.map(({ tenantId }) => tenantId),
      conversations.map(({ conversationId }) => conversationId),
    ],
  );
  return rows;
}
