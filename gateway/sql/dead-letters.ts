import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/**
 * Returns the tenants whose open dead letters hold more than `bytesMax` bytes. Rejects after
 * `deadlineMs`.
 */
export async function findTenantsOver(pool: Pool, bytesMax: number, deadlineMs: number): Promise<string[]> {
  const rows = await queryWithDeadline<{ tenantId: string }>(
    pool,
    deadlineMs,
    `select tenant_id as "tenantId"
       from dead_letters
      where state in ('open', 'replaying') and tenant_id <> ''
      group by tenant_id
     having sum(bytes) > $1`,
    [bytesMax],
  );
  return rows.map(({ tenantId }) => tenantId);
}
