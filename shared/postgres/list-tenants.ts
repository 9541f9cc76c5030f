import type { Queryable } from './pool.ts';

export interface Tenant {
  readonly tenantId: string;
  readonly name: string;
}

/** Returns all tenants, or the one with that name. */
export async function listTenants(db: Queryable, name?: string): Promise<Tenant[]> {
  const { rows } = await db.query<{ tenant_id: string; name: string }>(
    'select tenant_id, name from tenants where $1::text is null or name = $1::text order by name',
    [name ?? null],
  );
  return rows.map((row) => ({ tenantId: row.tenant_id, name: row.name }));
}
