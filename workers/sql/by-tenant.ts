/**
 * Runs `work` for each tenant's ids, one tenant after another in the order of the ids, and resolves
 * with all results in that order. A statement that locks rows must name one tenant: a cluster that
 * is sharded by tenant (Citus) refuses locks over several shards.
 */
export async function byTenant<Id extends { readonly tenantId: string }, T>(
  ids: readonly Id[],
  work: (tenantId: string, ofTenant: readonly Id[]) => Promise<readonly T[]>,
): Promise<T[]> {
  const tenants = new Map<string, Id[]>();
  for (const id of ids) {
    const ofTenant = tenants.get(id.tenantId);
    if (ofTenant) ofTenant.push(id);
    else tenants.set(id.tenantId, [id]);
  }
  const results: T[] = [];
  for (const [tenantId, ofTenant] of tenants) results.push(...(await work(tenantId, ofTenant)));
  return results;
}
