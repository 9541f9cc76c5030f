import type { QualityCount } from '../../shared/data-quality/counts.ts';
import { tryAdvisoryLock } from '../../shared/postgres/advisory-lock.ts';
import { insertRows } from '../../shared/postgres/bulk-rows.ts';
import {
  DATA_QUALITY_DELTAS,
  deltaColumns,
  QUALITY_COLUMNS,
} from '../../shared/postgres/data-quality-deltas.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/** Stores the counts of a batch. `source` is the position of one of its records. */
export async function insertQualityDeltas(
  db: Queryable,
  source: string,
  counts: readonly QualityCount[],
): Promise<void> {
  await insertRows(withoutAnswer(db), DATA_QUALITY_DELTAS, deltaColumns(source), counts);
}

/** Key of the advisory lock that serializes the folding of deltas; an arbitrary number. */
const FOLDING_LOCK = 7_305_411_904;

/** Locks the folding until the transaction ends. Resolves with false if another one holds it. */
export function lockFolding(db: Queryable): Promise<boolean> {
  return tryAdvisoryLock(db, FOLDING_LOCK);
}

/** Resolves with tenants that have deltas, at most `rowsMax`. */
export async function listTenantsWithDeltas(db: Queryable, rowsMax: number): Promise<string[]> {
  const { rows } = await db.query<{ tenantId: string }>(
    'select distinct tenant_id as "tenantId" from data_quality_deltas limit $1',
    [rowsMax],
  );
  return rows.map(({ tenantId }) => tenantId);
}

export interface TakenCounts {
  readonly counts: readonly QualityCount[];
  /** Number of deltas that were deleted. */
  readonly deltas: number;
}

/** Deletes up to `rowsMax` deltas of a tenant, and resolves with their sums. */
export async function takeQualityDeltas(
  db: Queryable,
  tenantId: string,
  rowsMax: number,
): Promise<TakenCounts> {
  const { rows } = await db.query<QualityCount & { readonly deltas: number }>(
    `with taken as (
       delete from data_quality_deltas
        where tenant_id = $1 and (day, source, measure, kind, code, name) in (
          select day, source, measure, kind, code, name from data_quality_deltas where tenant_id = $1 limit $2
        )
       returning day, measure, kind, code, name, records
     )
     select $1::text as "tenantId", to_char(day, 'YYYY-MM-DD') as day, measure, kind, code, name,
            sum(records) as records, count(*)::integer as deltas
       from taken group by day, measure, kind, code, name`,
    [tenantId, rowsMax],
  );
  return { counts: rows, deltas: rows.reduce((sum, { deltas }) => sum + deltas, 0) };
}

/** Resolves with whether a tenant was deleted. */
export async function isTenantDeleted(db: Queryable, tenantId: string): Promise<boolean> {
  const { rows } = await db.query<{ deleted: boolean }>(
    `select exists (select 1 from erasures where tenant_id = $1 and subject = 'tenant') as deleted`,
    [tenantId],
  );
  return rows[0]!.deleted;
}

/** Resolves with the names that are counted of a tenant on days. */
export async function listCountedNames(
  db: Queryable,
  tenantId: string,
  days: readonly string[],
): Promise<Pick<QualityCount, 'day' | 'measure' | 'kind' | 'code' | 'name'>[]> {
  const { rows } = await db.query<Pick<QualityCount, 'day' | 'measure' | 'kind' | 'code' | 'name'>>(
    `select to_char(day, 'YYYY-MM-DD') as day, measure, kind, code, name
       from data_quality where tenant_id = $1 and day = any($2::date[]) and name <> ''`,
    [tenantId, days],
  );
  return rows;
}

/** Adds counts (distinct) of a tenant to its totals. */
export async function addQualityCounts(db: Queryable, counts: readonly QualityCount[]): Promise<void> {
  await insertRows(
    db,
    'data_quality',
    QUALITY_COLUMNS,
    counts,
    `on conflict (tenant_id, day, measure, kind, code, name) do update set
       records = data_quality.records + excluded.records
     returning measure`,
  );
}

/** Deletes up to `rowsMax` counts of days before `day`, and returns their number. */
export async function sweepDataQuality(db: Queryable, day: string, rowsMax: number): Promise<number> {
  const result = await db.query(
    `delete from data_quality where (tenant_id, day, measure, kind, code, name) in (
       select tenant_id, day, measure, kind, code, name from data_quality where day < $1::date
        limit $2 for update skip locked
     )`,
    [day, rowsMax],
  );
  return result.rowCount ?? 0;
}
