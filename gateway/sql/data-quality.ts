import type { QualityCount } from '../../shared/data-quality/counts.ts';
import { insertStatement } from '../../shared/postgres/bulk-rows.ts';
import { DATA_QUALITY_DELTAS, deltaColumns } from '../../shared/postgres/data-quality-deltas.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** Stores counts, unless those of the source are stored. Rejects after `deadlineMs`. */
export async function writeQualityDeltas(
  pool: Pool,
  source: string,
  counts: readonly QualityCount[],
  deadlineMs: number,
): Promise<void> {
  const { text, values } = insertStatement(
    DATA_QUALITY_DELTAS,
    deltaColumns(source),
    counts,
    'on conflict do nothing',
  );
  await queryWithDeadline(pool, deadlineMs, text, values);
}
