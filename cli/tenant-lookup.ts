import { AppError } from '../shared/errors.ts';
import type { Queryable } from '../shared/postgres/pool.ts';
import { listTenants, type Tenant } from '../shared/postgres/tenants.ts';

/** Returns the tenant with this name. Throws AppError `TENANT_UNKNOWN`. */
export async function requireTenant(db: Queryable, name: string): Promise<Tenant> {
  const [tenant] = await listTenants(db, name);
  if (!tenant) throw new AppError('TENANT_UNKNOWN', unknownTenant(name));
  return tenant;
}

/**
 * Returns the tenant with this name, or all tenants if no name is given. Throws AppError
 * `TENANT_UNKNOWN`.
 */
export async function tenantsToSearch(db: Queryable, name: string | undefined): Promise<Tenant[]> {
  return name === undefined ? await listTenants(db) : [await requireTenant(db, name)];
}

function unknownTenant(name: string): string {
  return `there is no tenant named ${name}: see \`./sluice tenants list\`, or create it with \`./sluice tenants create\``;
}
