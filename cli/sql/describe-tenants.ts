import type { ByteRate, RequestRate } from '../../shared/postgres/create-tenant.ts';
import { epochMs, toMs, toMsOrNull } from '../../shared/postgres/epoch-ms.ts';
import type { Tenant } from '../../shared/postgres/list-tenants.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { dayOf } from '../../shared/postgres/tenant-usage.ts';

/** A tenant with all that an operator sets of it. */
export interface TenantDescription extends Tenant {
  readonly rate: RequestRate;
  readonly byteRate: ByteRate;
  /** Records a UTC day; null where any number is taken, which is then not counted either. */
  readonly quota: number | null;
  /** Records counted of the day so far, which gateways tell about once a second. */
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

/** All tenants by name, or the one of that name, with what was counted of the day of `nowMs`. */
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
