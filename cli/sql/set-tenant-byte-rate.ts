import type { ByteRate } from '../../shared/postgres/create-tenant.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** Sets how many bytes of bodies a tenant may send per second. */
export async function setTenantByteRate(db: Queryable, tenantId: string, rate: ByteRate): Promise<void> {
  await db.query('update tenants set byte_rate = $2::integer, bytes_unlimited = $3 where tenant_id = $1', [
    tenantId,
    typeof rate === 'number' ? rate : null,
    rate === 'none',
  ]);
}
