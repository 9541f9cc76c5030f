import type { RequestRate } from './create-tenant.ts';
import type { Tenant } from './list-tenants.ts';
import type { Queryable } from './pool.ts';

/** A tenant with all that an operator sets of it. */
export interface TenantDescription extends Tenant {
  readonly rate: RequestRate;
  /** When it was disabled; null while it is not. */
  readonly disabledAtMs: number | null;
  readonly createdAtMs: number;
}

interface Row {
  readonly tenant_id: string;
  readonly name: string;
  readonly request_rate: number | null;
  readonly unlimited: boolean;
  readonly disabled_at: Date | null;
  readonly created_at: Date;
}

/** All tenants by name, or the one of that name. */
export async function describeTenants(db: Queryable, name?: string): Promise<TenantDescription[]> {
  const { rows } = await db.query<Row>(
    `select tenant_id, name, request_rate, unlimited, disabled_at, created_at
       from tenants
      where $1::text is null or name = $1::text
      order by name`,
    [name ?? null],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    name: row.name,
    rate: row.unlimited ? 'none' : (row.request_rate ?? 'default'),
    disabledAtMs: row.disabled_at?.getTime() ?? null,
    createdAtMs: row.created_at.getTime(),
  }));
}
