import { NAMES_MAX, OTHER_NAMES, type QualityCount } from '../shared/data-quality/counts.ts';
import { inTransaction, type Pool } from '../shared/postgres/pool.ts';
import {
  addQualityCounts,
  isTenantDeleted,
  listCountedNames,
  listTenantsWithDeltas,
  lockFolding,
  takeQualityDeltas,
} from './sql/data-quality.ts';

export interface FoldingDeps {
  readonly pool: Pool;
}

/** Tenants of one run, at most. The others wait for the next run. */
const TENANTS_MAX = 10_000;
/** Deltas of one transaction, at most. */
const ROWS_MAX = 5000;
const IDLE_IN_TRANSACTION_MS = 3_000;
const STATEMENT_TIMEOUT_MS = 10_000;

/**
 * Adds the deltas of data quality to the totals, and deletes them, in short transactions. A reader
 * sees each delta once, in either form. Any number of processes may do it concurrently; one at a
 * time folds.
 */
export async function foldDataQuality({ pool }: FoldingDeps, signal: AbortSignal): Promise<void> {
  for (const tenantId of await listTenantsWithDeltas(pool, TENANTS_MAX)) {
    while (!signal.aborted && (await foldSome(pool, tenantId)) === ROWS_MAX);
  }
}

/** Folds some deltas of a tenant, and resolves with their number; 0 if another process folds. */
async function foldSome(pool: Pool, tenantId: string): Promise<number> {
  return await inTransaction(
    pool,
    async (db) => {
      // Two transactions could each add names up to the maximum.
      if (!(await lockFolding(db))) return 0;
      const { counts, deltas } = await takeQualityDeltas(db, tenantId, ROWS_MAX);
      // Gateways may write the counts of their last requests after the tenant's rows were deleted.
      if (deltas === 0 || (await isTenantDeleted(db, tenantId))) return deltas;
      const days = [...new Set(counts.map(({ day }) => day))];
      await addQualityCounts(db, limitNames(counts, await listCountedNames(db, tenantId, days)));
      return deltas;
    },
    { idleTimeoutMs: IDLE_IN_TRANSACTION_MS, statementTimeoutMs: STATEMENT_TIMEOUT_MS },
  );
}

type CountedName = Omit<QualityCount, 'tenantId' | 'records'>;

/**
 * Returns the counts with at most {@link NAMES_MAX} names per day and measure, including those that
 * are counted already. Each gateway limits its own names; several have more together.
 */
export function limitNames(counts: readonly QualityCount[], counted: readonly CountedName[]): QualityCount[] {
  const namesOf = new Map<string, Set<string>>();
  const known = ({ day, measure }: CountedName) => {
    const key = `${day} ${measure}`;
    const names = namesOf.get(key) ?? new Set();
    namesOf.set(key, names);
    return names;
  };
  for (const one of counted) known(one).add(keyOf(one));
  const limited = new Map<string, QualityCount>();
  for (const one of counts) {
    const names = known(one);
    const isFree = one.name === '' || names.has(keyOf(one)) || names.size < NAMES_MAX;
    const count = isFree ? one : { ...one, name: OTHER_NAMES };
    if (isFree && one.name !== '') names.add(keyOf(one));
    const key = `${one.day} ${one.measure} ${keyOf(count)}`;
    limited.set(key, { ...count, records: count.records + (limited.get(key)?.records ?? 0) });
  }
  return [...limited.values()];
}

function keyOf({ kind, code, name }: CountedName): string {
  return `${kind} ${code} ${name}`;
}
