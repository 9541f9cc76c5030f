import { AppError, errorCode } from '../errors.ts';
import type { Queryable } from './pool.ts';

/** How many requests a second a tenant may make: a number, no limit at all, or the product's default. */
export type RequestRate = number | 'none' | 'default';

export interface NewTenant {
  readonly tenantId: string;
  readonly name: string;
  readonly rate: RequestRate;
  readonly createdAtMs: number;
}

const UNIQUE_VIOLATION = '23505';

/** Adds a tenant. Throws AppError `TENANT_EXISTS` (not retryable) when the name is taken. */
export async function createTenant(db: Queryable, tenant: NewTenant): Promise<void> {
  const { tenantId, name, rate, createdAtMs } = tenant;
  try {
    await db.query(
      `insert into tenants (tenant_id, name, request_rate, unlimited, created_at)
       values ($1::text, $2::text, $3::integer, $4::boolean, $5::timestamptz)`,
      [tenantId, name, typeof rate === 'number' ? rate : null, rate === 'none', new Date(createdAtMs)],
    );
  } catch (error) {
    if (errorCode(error) !== UNIQUE_VIOLATION) throw error;
    throw new AppError('TENANT_EXISTS', `there is a tenant named ${name} already`, { cause: error });
  }
}
