import type { RequestRate } from '../../shared/postgres/create-tenant.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** Sets how many requests a second a tenant may make. */
export async function setTenantRate(db: Queryable, tenantId: string, rate: RequestRate): Promise<void> {
  await db.query('update tenants set request_rate = $2::integer, unlimited = $3 where tenant_id = $1', [
    tenantId,
    typeof rate === 'number' ? rate : null,
    rate === 'none',
  ]);
}
