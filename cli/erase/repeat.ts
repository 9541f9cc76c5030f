import { erasedIdHash } from '../../shared/postgres/erased-ids.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { findByHash, listErasedIds } from '../sql/erase-repeat.ts';
import { removeAll } from './remove.ts';
import { type ErasedIds, type ErasureScope, NO_IDS, type Removed, SUBJECTS } from './scope.ts';

/** Resolves with what is stored although it was erased, by the time of the erasures. */
export async function findErased(pool: Pool, tenantId: string): Promise<ErasureScope[]> {
  const erased = await listErasedIds(pool, [tenantId]);
  const times = new Map(erased.map(({ idSha256, erasedAtMs }) => [idSha256, erasedAtMs]));
  const scopes = new Map<number, ErasureScope>();
  for (const [name, subject] of Object.entries(SUBJECTS) as [
    keyof ErasedIds,
    (typeof SUBJECTS)[keyof ErasedIds],
  ][]) {
    const hashes = erased.filter((one) => one.subject === subject).map(({ idSha256 }) => idSha256);
    if (hashes.length === 0) continue;
    for (const id of await findByHash(pool, tenantId, subject, hashes)) {
      const erasedAtMs = times.get(erasedIdHash(tenantId, subject, id))!;
      const scope = scopes.get(erasedAtMs) ?? { ...NO_IDS, tenantId, erasedAtMs };
      scopes.set(erasedAtMs, { ...scope, [name]: [...scope[name], id] });
    }
  }
  return [...scopes.values()];
}

/** Erases again what a restored backup brought back. Workers must not run. */
export async function repeatErasures(pool: Pool, scopes: readonly ErasureScope[]): Promise<Removed> {
  const total = { deleted: {}, blanked: {} } satisfies Removed;
  for (const scope of scopes) {
    const { deleted, blanked } = await removeAll({ pool, storedToMs: scope.erasedAtMs }, scope);
    addTo(total.deleted, deleted);
    addTo(total.blanked, blanked);
  }
  return total;
}

function addTo(total: Record<string, number>, added: Readonly<Record<string, number>>): void {
  for (const [table, rows] of Object.entries(added)) total[table] = (total[table] ?? 0) + rows;
}
