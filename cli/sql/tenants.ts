import type { ByteRate, RequestRate } from '../../shared/postgres/create-tenant.ts';
import { epochMs, toMs, toMsOrNull } from '../../shared/postgres/epoch-ms.ts';
import type { Tenant } from '../../shared/postgres/list-tenants.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { dayOf } from '../../shared/postgres/tenant-usage.ts';

/** A tenant with its limits and usage. */
export interface TenantDescription extends Tenant {
  readonly rate: RequestRate;
  readonly byteRate: ByteRate;
  /** Records per UTC day; null without a quota. Records are counted only with a quota. */
  readonly quota: number | null;
  /** Records counted so far on this day. Gateways report them about once per second. */
  readonly recordsToday: number;
  /** When it was disabled; null while it is not. */
  readonly disabledAtMs: number | null;
  readonly createdAtMs: number;
}

interface Row {
  readonly tenant_id: string;
  readonly name: string;
  readonly request_rate: number | null;
  readonly unlimited: boolean;
  readonly byte_rate: number | null;
  readonly bytes_unlimited: boolean;
  readonly daily_quota: number | null;
  readonly records_today: bigint;
  readonly disabled_at_ms: bigint | null;
  readonly created_at_ms: bigint;
}

/** Returns all tenants ordered by name, or the one with this name, with their usage on the day of `nowMs`. */
export async function describeTenants(
  db: Queryable,
  nowMs: number,
  name?: string,
): Promise<TenantDescription[]> {
  const { rows } = await db.query<Row>(
    `select t.tenant_id, t.name, t.request_rate, t.unlimited, t.byte_rate, t.bytes_unlimited, t.daily_quota,
            ${epochMs('t.disabled_at')} as disabled_at_ms, ${epochMs('t.created_at')} as created_at_ms,
            coalesce(u.records, 0) as records_today
       from tenants t
       left join (select tenant_id, sum(records)::bigint as records
                    from tenant_usage where day = $2::date group by tenant_id) u on u.tenant_id = t.tenant_id
      where $1::text is null or t.name = $1::text
      order by t.name`,
    [name ?? null, dayOf(nowMs)],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    name: row.name,
    rate: row.unlimited ? 'none' : (row.request_rate ?? 'default'),
    byteRate: row.bytes_unlimited ? 'none' : (row.byte_rate ?? 'default'),
    quota: row.daily_quota,
    recordsToday: Number(row.records_today),
    disabledAtMs: toMsOrNull(row.disabled_at_ms),
    createdAtMs: toMs(row.created_at_ms),
  }));
}

/** Sets the requests that a tenant may send per second. */
export async function setTenantRate(db: Queryable, tenantId: string, rate: RequestRate): Promise<void> {
  await db.query('update tenants set request_rate = $2::integer, unlimited = $3 where tenant_id = $1', [
    tenantId,
    typeof rate === 'number' ? rate : null,
    rate === 'none',
  ]);
}

/** Sets the bytes of request bodies that a tenant may send per second. */
export async function setTenantByteRate(db: Queryable, tenantId: string, rate: ByteRate): Promise<void> {
  await db.query('update tenants set byte_rate = $2::integer, bytes_unlimited = $3 where tenant_id = $1', [
    tenantId,
    typeof rate === 'number' ? rate : null,
    rate === 'none',
  ]);
}

/** Sets the records that a tenant may send per UTC day; `none` removes the quota. */
export async function setTenantQuota(db: Queryable, tenantId: string, quota: number | 'none'): Promise<void> {
  await db.query('update tenants set daily_quota = $2::integer where tenant_id = $1', [
    tenantId,
    quota === 'none' ? null : quota,
  ]);
}

/**
 * Disables a tenant from `disabledAtMs` on, or enables it if null. Returns whether that changed anything: a disabled tenant
 * keeps its time. Gateways see the change when they refresh their API keys.
 */
export async function setTenantDisabled(
  db: Queryable,
  tenantId: string,
  disabledAtMs: number | null,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update tenants set disabled_at = $2::timestamptz
      where tenant_id = $1 and (disabled_at is null) = ($2::timestamptz is not null)`,
    [tenantId, disabledAtMs === null ? null : new Date(disabledAtMs)],
  );
  return rowCount === 1;
}
