import type { Queryable } from '../../shared/postgres/pool.ts';
import type { ByteRate, RequestRate, Tenant } from '../../shared/postgres/tenants.ts';
import { dayOf, epochMs, toDate } from '../../shared/postgres/times.ts';

/** A tenant with its limits and usage. */
export interface TenantDescription extends Tenant {
  readonly rate: RequestRate;
  readonly byteRate: ByteRate;
  /** Records per UTC day; null without a quota. Records are counted only with a quota. */
  readonly quota: number | null;
  /** Records counted so far on this day. Gateways report them about once per second. */
  readonly recordsToday: number;
  /** Time at which the tenant was disabled; null if the tenant is enabled. */
  readonly disabledAtMs: number | null;
  /** Time at which its deletion began; null: it is not being deleted. */
  readonly deletedAtMs: number | null;
  readonly createdAtMs: number;
}

interface Row extends Omit<TenantDescription, 'rate' | 'byteRate'> {
  readonly requestRate: number | null;
  readonly unlimited: boolean;
  readonly bytesPerSecond: number | null;
  readonly bytesUnlimited: boolean;
}

/**
 * Returns all tenants ordered by name, or the one with this name, with their usage on the day of
 * `nowMs`.
 */
export async function describeTenants(
  db: Queryable,
  nowMs: number,
  name?: string,
): Promise<TenantDescription[]> {
  const { rows } = await db.query<Row>(
    `select t.tenant_id as "tenantId", t.name, t.request_rate as "requestRate", t.unlimited,
            t.byte_rate as "bytesPerSecond", t.bytes_unlimited as "bytesUnlimited", t.daily_quota as quota,
            coalesce(u.records, 0) as "recordsToday",
            ${epochMs('t.disabled_at')} as "disabledAtMs", ${epochMs('t.deleted_at')} as "deletedAtMs",
            ${epochMs('t.created_at')} as "createdAtMs"
       from tenants t
       left join (select tenant_id, sum(records) as records
                    from tenant_usage where day = $2::date group by tenant_id) u on u.tenant_id = t.tenant_id
      where $1::text is null or t.name = $1::text
      order by t.name`,
    [name ?? null, dayOf(nowMs)],
  );
  return rows.map(({ requestRate, unlimited, bytesPerSecond, bytesUnlimited, ...tenant }) => ({
    ...tenant,
    rate: unlimited ? 'none' : (requestRate ?? 'default'),
    byteRate: bytesUnlimited ? 'none' : (bytesPerSecond ?? 'default'),
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
 * Disables a tenant from `disabledAtMs` on, or enables the tenant if null. Returns whether the
 * state changed: a disabled tenant keeps its time. Gateways apply the change when they refresh
 * their API keys.
 */
export async function setTenantDisabled(
  db: Queryable,
  tenantId: string,
  disabledAtMs: number | null,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update tenants set disabled_at = $2::timestamptz
      where tenant_id = $1 and deleted_at is null and (disabled_at is null) = ($2::timestamptz is not null)`,
    [tenantId, toDate(disabledAtMs)],
  );
  return rowCount === 1;
}
