import type { ByteRate, RequestRate } from './create-tenant.ts';
import { epochMs, toMs, toMsOrNull } from './epoch-ms.ts';
import type { Pool } from './pool.ts';
import { queryWithDeadline } from './query-with-deadline.ts';

/** An API key as stored. Expiry is checked at each use, so that a cached key still expires. */
export interface ApiKey {
  readonly apiKeyId: string;
  /** Changes whenever the key or its tenant changes in what is read here. */
  readonly version: string;
  readonly tenantId: string;
  readonly secretSha256: Buffer;
  /**
   * The previous secret, from the last rotation. Its validity is checked at each use, as expiry is.
   */
  readonly previousSecret: { readonly sha256: Buffer; readonly validUntilMs: number } | undefined;
  readonly scopes: readonly string[];
  readonly expiresAtMs: number | undefined;
  readonly revoked: boolean;
  readonly tenantDisabled: boolean;
  readonly limits: {
    /** Requests per second of all the tenant's keys together. */
    readonly tenantRate: RequestRate;
    /** Requests per second of this key. */
    readonly keyRate: number | undefined;
    /** Bytes per second of the bodies of all the tenant's keys together. */
    readonly byteRate: ByteRate;
    /** The tenant's records per day. */
    readonly dailyQuota: number | undefined;
  };
}

interface Row {
  api_key_id: string;
  version: string;
  tenant_id: string;
  secret_sha256: string;
  previous_secret_sha256: string | null;
  previous_valid_until_ms: bigint | null;
  scopes: string[];
  expires_at_ms: bigint | null;
  revoked_at_ms: bigint | null;
  disabled_at_ms: bigint | null;
  key_rate: number | null;
  tenant_rate: number | null;
  unlimited: boolean;
  byte_rate: number | null;
  bytes_unlimited: boolean;
  daily_quota: number | null;
}

/** A key that a process has read earlier. */
export type SeenKey = Pick<ApiKey, 'apiKeyId' | 'version'>;

/** The present state of such a key; `now` is undefined when it no longer exists. */
export interface ChangedKey {
  readonly apiKeyId: string;
  readonly now: ApiKey | undefined;
}

/**
 * The version is a hash of all columns that are read, so that no change can be missed. Times are
 * numbers and bytes are hexadecimal, because their text depends on the session.
 */
const KEYS = `
  select found.*, md5(found::text) as version
    from (select k.api_key_id, k.tenant_id, encode(k.secret_sha256, 'hex') as secret_sha256, k.scopes,
                 ${epochMs('k.expires_at')} as expires_at_ms, ${epochMs('k.revoked_at')} as revoked_at_ms,
                 ${epochMs('t.disabled_at')} as disabled_at_ms,
                 encode(k.previous_secret_sha256, 'hex') as previous_secret_sha256,
                 ${epochMs('k.previous_valid_until')} as previous_valid_until_ms,
                 k.request_rate as key_rate, t.request_rate as tenant_rate, t.unlimited, t.byte_rate,
                 t.bytes_unlimited, t.daily_quota
            from api_keys k
            join tenants t on t.tenant_id = k.tenant_id) as found`;

/**
 * Returns the keys that exist among `apiKeyIds`, revoked and expired ones included. Rejects after
 * `deadlineMs`.
 */
export async function findApiKeys(
  pool: Pool,
  apiKeyIds: readonly string[],
  deadlineMs: number,
): Promise<ApiKey[]> {
  const text = `${KEYS} where found.api_key_id = any($1::text[])`;
  const rows = await queryWithDeadline<Row>(pool, deadlineMs, text, [apiKeyIds]);
  return rows.map(toApiKey);
}

/**
 * Returns the keys that have changed, usually few: reading all of them would take most of the time.
 * Rejects after `deadlineMs`.
 */
export async function findChangedApiKeys(
  pool: Pool,
  seen: readonly SeenKey[],
  deadlineMs: number,
): Promise<ChangedKey[]> {
  const rows = await queryWithDeadline<Row & { readonly seen_id: string; readonly is_there: boolean }>(
    pool,
    deadlineMs,
    `select seen.seen_id, now.api_key_id is not null as is_there, now.*
       from unnest($1::text[], $2::text[]) as seen (seen_id, seen_version)
       left join (${KEYS} where found.api_key_id = any($1::text[])) as now on now.api_key_id = seen.seen_id
      where now.version is distinct from seen.seen_version`,
    [seen.map(({ apiKeyId }) => apiKeyId), seen.map(({ version }) => version)],
  );
  return rows.map((row) => ({ apiKeyId: row.seen_id, now: row.is_there ? toApiKey(row) : undefined }));
}

function toApiKey(row: Row): ApiKey {
  return {
    apiKeyId: row.api_key_id,
    version: row.version,
    tenantId: row.tenant_id,
    secretSha256: Buffer.from(row.secret_sha256, 'hex'),
    previousSecret:
      row.previous_secret_sha256 !== null && row.previous_valid_until_ms !== null
        ? {
            sha256: Buffer.from(row.previous_secret_sha256, 'hex'),
            validUntilMs: toMs(row.previous_valid_until_ms),
          }
        : undefined,
    scopes: row.scopes,
    expiresAtMs: toMsOrNull(row.expires_at_ms) ?? undefined,
    revoked: row.revoked_at_ms !== null,
    tenantDisabled: row.disabled_at_ms !== null,
    limits: {
      tenantRate: row.unlimited ? 'none' : (row.tenant_rate ?? 'default'),
      keyRate: row.key_rate ?? undefined,
      byteRate: row.bytes_unlimited ? 'none' : (row.byte_rate ?? 'default'),
      dailyQuota: row.daily_quota ?? undefined,
    },
  };
}
