import type { Queryable } from '../../shared/postgres/pool.ts';

/**
 * Disables a tenant from `disabledAtMs` on, or with null enables it; resolves with whether that changed anything (one
 * that is disabled keeps its time). Gateways learn of it when they refresh their keys.
 */
export async function setTenantDisabled(
  db: Queryable,
  tenantId: string,
  disabledAtMs: number | null,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update tenants set disabled_at = $2::timestamptz
      where tenant_id = $1 and (disabled_at is null) = ($2::timestamptz is not null)`,
    [tenantId, disabledAtMs === null ? null : new Date(disabledAtMs)],
  );
  return rowCount === 1;
}
