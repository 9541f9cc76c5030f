import type { Queryable } from '../../shared/postgres/pool.ts';

/** Deletes up to `rowsMax` counts of days before `day`, and returns their number. */
export async function sweepTenantUsage(db: Queryable, day: string, rowsMax: number): Promise<number> {
  const result = await db.query(
    `delete from tenant_usage where (tenant_id, day, gateway_id) in (
       select tenant_id, day, gateway_id from tenant_usage where day < $1::date limit $2 for update skip locked
     )`,
    [day, rowsMax],
  );
  return result.rowCount ?? 0;
}
