import type { RequestRate } from './create-tenant.ts';
import type { Pool } from './pool.ts';
import { queryWithin } from './query-within.ts';

/** A caller's key as stored. Expiry is checked at each use, so that a key that was read long ago still expires. */
export interface ApiKey {
  readonly apiKeyId: string;
  readonly tenantId: string;
  readonly secretSha256: Buffer;
  readonly scopes: readonly string[];
  readonly expiresAtMs: number | undefined;
  readonly revoked: boolean;
  readonly tenantDisabled: boolean;
  readonly limits: {
    /** Requests a second of all the tenant's keys together. */
    readonly tenantRate: RequestRate;
    /** Requests a second of this key. */
    readonly keyRate: number | undefined;
    /** The tenant's records a day. */
    readonly dailyQuota: number | undefined;
  };
}

interface Row {
  api_key_id: string;
  tenant_id: string;
  secret_sha256: Buffer;
  scopes: string[];
  expires_at: Date | null;
  revoked_at: Date | null;
  disabled_at: Date | null;
  key_rate: number | null;
  tenant_rate: number | null;
  unlimited: boolean;
  daily_quota: number | null;
}

/** The keys that exist among `apiKeyIds`, revoked and expired ones included. Rejects after `deadlineMs`. */
export async function findApiKeys(
  pool: Pool,
  apiKeyIds: readonly string[],
  deadlineMs: number,
): Promise<ApiKey[]> {
  const rows = await queryWithin<Row>(
    pool,
    deadlineMs,
    `select k.api_key_id, k.tenant_id, k.secret_sha256, k.scopes, k.expires_at, k.revoked_at, t.disabled_at,
            k.request_rate as key_rate, t.request_rate as tenant_rate, t.unlimited, t.daily_quota
       from api_keys k
       join tenants t on t.tenant_id = k.tenant_id
      where k.api_key_id = any($1::text[])`,
    [apiKeyIds],
  );
  return rows.map((row) => ({
    apiKeyId: row.api_key_id,
    tenantId: row.tenant_id,
    secretSha256: row.secret_sha256,
    scopes: row.scopes,
    expiresAtMs: row.expires_at?.getTime(),
    revoked: row.revoked_at !== null,
    tenantDisabled: row.disabled_at !== null,
    limits: {
      tenantRate: row.unlimited ? 'none' : (row.tenant_rate ?? 'default'),
      keyRate: row.key_rate ?? undefined,
      dailyQuota: row.daily_quota ?? undefined,
    },
  }));
}
