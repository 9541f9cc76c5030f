import { AppError, errorCode } from '../errors.ts';
import type { Queryable } from './pool.ts';
import { SQLSTATE } from './sqlstate.ts';

/**
 * Requests per second of each operation, with 20 records per request: a number, no limit, or the
 * default of Sluice.
 */
export type RequestRate = number | 'none' | 'default';

/** Bytes per second of decompressed bodies: a number, no limit, or the default of Sluice. */
export type ByteRate = number | 'none' | 'default';

export interface Tenant {
  readonly tenantId: string;
  readonly name: string;
}

export interface NewTenant extends Tenant {
  readonly rate: RequestRate;
  /** Default: none for a tenant without a request rate. */
  readonly byteRate?: ByteRate | undefined;
  /** Records per UTC day. Default: no quota. */
  readonly quota?: number | undefined;
  readonly createdAtMs: number;
}

/** Adds a tenant. Throws AppError `TENANT_EXISTS` (not retryable) when the name is taken. */
export async function createTenant(db: Queryable, tenant: NewTenant): Promise<void> {
  const { tenantId, name, rate, quota, createdAtMs } = tenant;
  const byteRate = tenant.byteRate ?? (rate === 'none' ? 'none' : 'default');
  try {
    await db.query(
      `insert into tenants (tenant_id, name, request_rate, unlimited, byte_rate, bytes_unlimited, daily_quota, created_at)
       values ($1::text, $2::text, $3::integer, $4::boolean, $5::integer, $6::boolean, $7::integer, $8::timestamptz)`,
      [
        tenantId,
        name,
        typeof rate === 'number' ? rate : null,
        rate === 'none',
        typeof byteRate === 'number' ? byteRate : null,
        byteRate === 'none',
        quota ?? null,
        new Date(createdAtMs),
      ],
    );
  } catch (error) {
    if (errorCode(error) !== SQLSTATE.UNIQUE_VIOLATION) throw error;
    throw new AppError('TENANT_EXISTS', `there is a tenant named ${name} already`, { cause: error });
  }
}

/** Returns all tenants, or the one with that name. */
export async function listTenants(db: Queryable, name?: string): Promise<Tenant[]> {
  const { rows } = await db.query<Tenant>(
    `select tenant_id as "tenantId", name
       from tenants
      where $1::text is null or name = $1::text
      order by name`,
    [name ?? null],
  );
  return rows;
}
