import type { Queryable } from '../../shared/postgres/pool.ts';

/** Sets how many records a tenant may bring in a UTC day; `none` takes the quota away. */
export async function setTenantQuota(db: Queryable, tenantId: string, quota: number | 'none'): Promise<void> {
  await db.query('update tenants set daily_quota = $2::integer where tenant_id = $1', [
    tenantId,
    quota === 'none' ? null : quota,
  ]);
}
