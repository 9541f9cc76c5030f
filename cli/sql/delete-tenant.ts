import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { ERASED_SECRETS } from '../../shared/postgres/webhook-endpoints.ts';
import { insertErasedIds } from './erased-ids.ts';
import type { Erasure } from './erasures.ts';

/** The tables that have the tenant until the end: its row, the audit, and what workers must not store. */
const KEPT = ['tenants', 'erasures', 'erased_ids'];

const DAY_MS = 86_400_000;

/**
 * Marks a tenant as deleted: its keys are refused, and workers store no more of its records. Records
 * that gateways accept until they know that are accepted within a day. Resolves with the number of
 * keys.
 */
export async function beginDeletion(pool: Pool, erasure: Erasure): Promise<number> {
  const { tenantId, erasureId, idSha256, erasedAtMs, erasedBy } = erasure;
  const erasedAt = new Date(erasedAtMs);
  return await inTransaction(pool, async (db) => {
    await db.query(
      `update tenants set disabled_at = coalesce(disabled_at, $2), deleted_at = coalesce(deleted_at, $2)
        where tenant_id = $1`,
      [tenantId, erasedAt],
    );
    await db.query(
      `insert into erasures (tenant_id, erasure_id, subject, id_sha256, erased_at, erased_by)
       values ($1, $2, 'tenant', decode($3, 'hex'), $4, $5)
       on conflict (tenant_id, erasure_id) do nothing`,
      [tenantId, erasureId, idSha256, erasedAt, erasedBy],
    );
    await insertErasedIds(db, [{ tenantId, subject: 'tenant', idSha256, erasedAtMs: erasedAtMs + DAY_MS }]);
    const keys = await db.query('delete from api_keys where tenant_id = $1', [tenantId]);
    await db.query(
      `update webhook_endpoints set state = 'deleted', updated_at = $2, ${ERASED_SECRETS}
        where tenant_id = $1 and state <> 'deleted'`,
      [tenantId, erasedAt],
    );
    return keys.rowCount ?? 0;
  });
}

/** A table, or a part of a partitioned one, with rows of tenants. */
export interface TenantTable {
  readonly name: string;
  readonly blocks: number;
}

/** The size of a table's own file; on Citus that of all shards, of which one has the tenant's rows. */
const SIZE = 'pg_relation_size(c.oid)';
const SIZE_ON_CITUS = `case when exists (select 1 from pg_dist_partition where logicalrelid = c.oid)
                 then citus_relation_size(c.oid) else ${SIZE} end`;

export async function listTenantTables(db: Queryable): Promise<TenantTable[]> {
  const { rows } = await db.query<TenantTable>(
    `select c.relname as name,
            (${db.isCitus ? SIZE_ON_CITUS : SIZE} / current_setting('block_size')::int)::int as blocks
       from pg_class c
       join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
      where c.relkind = 'r' and c.relname <> all($1::text[])
        and c.relnamespace = (select relnamespace from pg_class where oid = 'tenants'::regclass)
      order by c.relname`,
    [KEPT],
  );
  return rows;
}

/** Deletes a tenant's rows in some blocks of a table, and resolves with their number. */
export async function deleteInBlocks(
  pool: Pool,
  tenantId: string,
  { table, from, to }: { readonly table: string; readonly from: number; readonly to: number },
): Promise<number> {
  const { rowCount } = await pool.query(
    `delete from ${table} where tenant_id = $1 and ctid >= $2::text::tid and ctid < $3::text::tid`,
    [tenantId, `(${from},0)`, `(${to},0)`],
  );
  return rowCount ?? 0;
}

/** Resolves with whether a table has rows of the tenant. */
export async function hasRows(db: Queryable, tenantId: string, table: string): Promise<boolean> {
  const { rows } = await db.query<{ has: boolean }>(
    `select exists (select 1 from ${table} where tenant_id = $1) as has`,
    [tenantId],
  );
  return rows[0]!.has;
}

/** Deletes the tenant itself, and completes the audit. */
export async function finishDeletion(
  pool: Pool,
  { tenantId, erasureId }: Erasure,
  deleted: Readonly<Record<string, number>>,
  finishedAtMs: number,
): Promise<void> {
  await inTransaction(pool, async (db) => {
    await db.query('delete from tenants where tenant_id = $1', [tenantId]);
    await db.query(
      'update erasures set removed = $3, finished_at = $4 where tenant_id = $1 and erasure_id = $2',
      [tenantId, erasureId, JSON.stringify({ deleted, blanked: {} }), new Date(finishedAtMs)],
    );
  });
}
