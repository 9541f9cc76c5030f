import { AppError } from '../shared/errors.ts';
import { listTenants, type Tenant } from '../shared/postgres/list-tenants.ts';
import type { Queryable } from '../shared/postgres/pool.ts';

/** The tenant of that name. Throws AppError `TENANT_UNKNOWN` saying how to make it. */
export async function requireTenant(db: Queryable, name: string): Promise<Tenant> {
  const [tenant] = await listTenants(db, name);
  if (!tenant) throw new AppError('TENANT_UNKNOWN', unknownTenant(name));
  return tenant;
}

/** The tenant of that name, or all of them where none is named. Throws AppError `TENANT_UNKNOWN`. */
export async function tenantsToSearch(db: Queryable, name: string | undefined): Promise<Tenant[]> {
  return name === undefined ? await listTenants(db) : [await requireTenant(db, name)];
}

function unknownTenant(name: string): string {
  return `there is no tenant named ${name}: see \`npx sluice tenants list\`, or make it with \`npx sluice tenants create\``;
}
