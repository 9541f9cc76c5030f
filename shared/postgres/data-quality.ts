import type { QualityCount } from '../data-quality/counts.ts';
import type { Queryable } from './pool.ts';

/** Days of a tenant, such as `2026-01-31`, both included. */
export interface QualityRange {
  readonly tenantId: string;
  readonly firstDay: string;
  readonly lastDay: string;
}

/**
 * Resolves with the counts of a range, sorted by key. One statement reads totals and deltas, because
 * between two statements a delta could be folded.
 */
export async function readDataQuality(
  db: Queryable,
  { tenantId, firstDay, lastDay }: QualityRange,
): Promise<Omit<QualityCount, 'tenantId'>[]> {
  const { rows } = await db.query<Omit<QualityCount, 'tenantId'>>(
    `select to_char(day, 'YYYY-MM-DD') as day, measure, kind, code, name, sum(records) as records
       from (select day, measure, kind, code, name, records
               from data_quality where tenant_id = $1 and day between $2::date and $3::date
              union all
             select day, measure, kind, code, name, records
               from data_quality_deltas where tenant_id = $1 and day between $2::date and $3::date) as counts
      group by day, measure, kind, code, name
      order by day, measure, kind, code, name`,
    [tenantId, firstDay, lastDay],
  );
  return rows;
}
