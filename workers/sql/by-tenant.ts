import { compareText } from '../../shared/compare-text.ts';
import { runTogether } from '../../shared/postgres/pipelining.ts';
import type { Queryable, QueryResult } from '../../shared/postgres/pool.ts';

/**
 * Returns the rows sorted by tenant, and those of a tenant by `compare`. Comparing the rows of each
 * tenant alone takes a third of the time: they are mostly in order, because ids and times increase.
 */
export function sortedByTenant<Row>(
  rows: readonly Row[],
  tenantOf: (row: Row) => string,
  compare: (a: Row, b: Row) => number,
): Row[] {
  const tenants = new Map<string, Row[]>();
  for (const row of rows) {
    const ofTenant = tenants.get(tenantOf(row));
    if (ofTenant) ofTenant.push(row);
    else tenants.set(tenantOf(row), [row]);
  }
  const sorted: Row[] = [];
  for (const tenantId of [...tenants.keys()].sort(compareText)) {
    for (const row of tenants.get(tenantId)!.sort(compare)) sorted.push(row);
  }
  return sorted;
}

/**
 * Runs one statement for each tenant's ids, in the order of the tenants, and resolves with all
 * results in that order. The ids of a tenant keep their order. So concurrent transactions whose ids
 * are sorted lock rows in the same order, even if the ids are not sorted by tenant. A statement that
 * locks rows must name one tenant: a cluster that is sharded by tenant (Citus) refuses locks over
 * several shards.
 */
export async function byTenant<Id extends { readonly tenantId: string }, T>(
  db: Queryable,
  ids: readonly Id[],
  run: (tenantId: string, ofTenant: readonly Id[]) => Promise<readonly T[]>,
): Promise<T[]> {
  const tenants = new Map<string, Id[]>();
  for (const id of ids) {
    const ofTenant = tenants.get(id.tenantId);
    if (ofTenant) ofTenant.push(id);
    else tenants.set(id.tenantId, [id]);
  }
  const statements = [...tenants.keys()]
    .sort(compareText)
    .map((tenantId) => () => run(tenantId, tenants.get(tenantId)!));
  return (await runTogether<(readonly T[])[]>(db, statements)).flat();
}

/**
 * Returns SQL for the tenant of `row`, an alias in the statement. May add a parameter to `values`,
 * which must hold all parameters so far.
 */
export type TenantOf = (row: string, values: unknown[]) => string;

/**
 * Runs an UPDATE or DELETE of given rows: one statement for all of them, on Citus one for each
 * tenant. There, a statement on several shards of a table waits for all transactions that have run
 * another one, whatever rows they write. Statements must name the tenant by `tenantOf` only. Resolves
 * with the rows that the statements return.
 */
export async function onShards<Row extends { readonly tenantId: string }, T = never>(
  db: Queryable,
  rows: readonly Row[],
  run: (rows: readonly Row[], tenantOf: TenantOf) => Promise<Pick<QueryResult<T>, 'rows'>>,
): Promise<T[]> {
  if (!db.isCitus) return (await run(rows, (row) => `${row}.tenant_id`)).rows;
  return await byTenant(db, rows, async (tenantId, ofTenant) => {
    const { rows } = await run(ofTenant, (_, values) => `$${values.push(tenantId)}::text`);
    return rows;
  });
}
