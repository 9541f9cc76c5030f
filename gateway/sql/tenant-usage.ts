import { compareText } from '../../shared/compare-text.ts';
import { type Column, insertStatement } from '../../shared/postgres/bulk-rows.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** The accepted records of a tenant on a day. */
export interface TenantDay {
  readonly tenantId: string;
  /** The UTC day, such as `2026-01-31`. */
  readonly day: string;
  readonly records: number;
}

/** Writes the counts of one gateway; idempotent. Rejects after `deadlineMs`. */
export async function writeTenantUsage(
  pool: Pool,
  gatewayId: string,
  days: readonly TenantDay[],
  deadlineMs: number,
): Promise<void> {
  const sorted = [...days].sort((a, b) => compareText(a.tenantId, b.tenantId) || compareText(a.day, b.day));
  const columns: Column<TenantDay>[] = [
    { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
    { name: 'day', type: 'date', value: ({ day }) => day },
    { name: 'gateway_id', type: 'text', value: () => gatewayId },
    { name: 'records', type: 'bigint', value: ({ records }) => records },
  ];
  const { text, values } = insertStatement(
    'tenant_usage',
    columns,
    sorted,
    `on conflict (tenant_id, day, gateway_id)
     do update set records = greatest(tenant_usage.records, excluded.records)`,
  );
  await queryWithDeadline(pool, deadlineMs, text, values);
}

/**
 * Returns the counts of all other gateways for these tenants on a day. Leaves out tenants without a
 * count. Rejects after `deadlineMs`.
 */
export async function readUsageOfOthers(
  pool: Pool,
  gatewayId: string,
  tenantIds: readonly string[],
  day: string,
  deadlineMs: number,
): Promise<Map<string, number>> {
  const rows = await queryWithDeadline<{ tenantId: string; records: bigint }>(
    pool,
    deadlineMs,
    `select tenant_id as "tenantId", sum(records)::bigint as records
       from tenant_usage
      where tenant_id = any($1::text[]) and day = $2::date and gateway_id <> $3::text
      group by tenant_id`,
    [tenantIds, day, gatewayId],
  );
  return new Map(rows.map((row) => [row.tenantId, Number(row.records)]));
}
