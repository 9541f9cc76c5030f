import type { QualityCount } from '../data-quality/counts.ts';
import type { Column } from './bulk-rows.ts';

export const DATA_QUALITY_DELTAS = 'data_quality_deltas';

/** The columns of counts in both tables. */
export const QUALITY_COLUMNS: readonly Column<QualityCount>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'day', type: 'date', value: ({ day }) => day },
  { name: 'measure', type: 'text', value: ({ measure }) => measure },
  { name: 'kind', type: 'text', value: ({ kind }) => kind },
  { name: 'code', type: 'text', value: ({ code }) => code },
  { name: 'name', type: 'text', value: ({ name }) => name },
  { name: 'records', type: 'bigint', value: ({ records }) => records },
];

/** Returns the columns of deltas. No two writes may have the same source, except a retry. */
export function deltaColumns(source: string): Column<QualityCount>[] {
  return [...QUALITY_COLUMNS, { name: 'source', type: 'text', same: source }];
}
