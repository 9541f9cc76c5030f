import type { Pool } from './pool.ts';
import { queryWithDeadline } from './query-with-deadline.ts';
import type { ByteRate, RequestRate } from './tenants.ts';
import { epochMs } from './times.ts';

/** An API key as stored. Expiry is checked at each use, so that a cached key still expires. */
export interface ApiKey {
  readonly apiKeyId: string;
  /**
   * The version of the key. Changes whenever a column of the key or its tenant changes that is read
   * here.
   */
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
    /** Requests per second of all keys of the tenant together. */
    readonly tenantRate: RequestRate;
    /** Requests per second of this key; undefined: only the tenant's rate applies. */
    readonly keyRate: number | undefined;
    /** Bytes of bodies per second of all keys of the tenant together. */
    readonly byteRate: ByteRate;
    /** Records per day of the tenant; undefined: no quota. */
    readonly dailyQuota: number | undefined;
  };
}

interface Row {
  readonly apiKeyId: string;
  readonly version: string;
  readonly tenantId: string;
  readonly secretSha256: string;
  readonly previousSecretSha256: string | null;
  readonly previousValidUntilMs: number | null;
  readonly scopes: string[];
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  readonly disabledAtMs: number | null;
  readonly keyRate: number | null;
  readonly tenantRate: number | null;
  readonly unlimited: boolean;
  readonly byteRate: number | null;
  readonly bytesUnlimited: boolean;
  readonly dailyQuota: number | null;
}

/** A key that a process has read earlier. */
export type SeenKey = Pick<ApiKey, 'apiKeyId' | 'version'>;

/** The current state of such a key; `now` is undefined if the key no longer exists. */
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
    from (select k.api_key_id as "apiKeyId", k.tenant_id as "tenantId",
                 encode(k.secret_sha256, 'hex') as "secretSha256", k.scopes,
                 ${epochMs('k.expires_at')} as "expiresAtMs", ${epochMs('k.revoked_at')} as "revokedAtMs",
                 ${epochMs('t.disabled_at')} as "disabledAtMs",
                 encode(k.previous_secret_sha256, 'hex') as "previousSecretSha256",
                 ${epochMs('k.previous_valid_until')} as "previousValidUntilMs",
                 k.request_rate as "keyRate", t.request_rate as "tenantRate", t.unlimited,
                 t.byte_rate as "byteRate", t.bytes_unlimited as "bytesUnlimited", t.daily_quota as "dailyQuota"
            from api_keys k
            join tenants t on t.tenant_id = k.tenant_id
           where k.api_key_id = any($1::text[])) as found`;

/**
 * Returns the keys with these ids that exist, including revoked and expired ones. Rejects after
 * `deadlineMs`.
 */
export async function findApiKeys(
  pool: Pool,
  apiKeyIds: readonly string[],
  deadlineMs: number,
): Promise<ApiKey[]> {
  const rows = await queryWithDeadline<Row>(pool, deadlineMs, KEYS, [apiKeyIds]);
  return rows.map(toApiKey);
}

/**
 * Returns only the keys that have changed, which are usually few, because reading all keys takes
 * longer. Rejects after `deadlineMs`.
 */
export async function findChangedApiKeys(
  pool: Pool,
  seen: readonly SeenKey[],
  deadlineMs: number,
): Promise<ChangedKey[]> {
  const rows = await queryWithDeadline<Row & { readonly seenId: string; readonly exists: boolean }>(
    pool,
    deadlineMs,
    `select seen.id as "seenId", now."apiKeyId" is not null as exists, now.*
       from unnest($1::text[], $2::text[]) as seen (id, version)
       left join (${KEYS}) as now on now."apiKeyId" = seen.id
      where now.version is distinct from seen.version`,
    [seen.map(({ apiKeyId }) => apiKeyId), seen.map(({ version }) => version)],
  );
  return rows.map((row) => ({ apiKeyId: row.seenId, now: row.exists ? toApiKey(row) : undefined }));
}

function toApiKey(row: Row): ApiKey {
  return {
    apiKeyId: row.apiKeyId,
    version: row.version,
    tenantId: row.tenantId,
    secretSha256: Buffer.from(row.secretSha256, 'hex'),
    previousSecret:
      row.previousSecretSha256 !== null && row.previousValidUntilMs !== null
        ? {
            sha256: Buffer.from(row.previousSecretSha256, 'hex'),
            validUntilMs: row.previousValidUntilMs,
          }
        : undefined,
    scopes: row.scopes,
    expiresAtMs: row.expiresAtMs ?? undefined,
    revoked: row.revokedAtMs !== null,
    tenantDisabled: row.disabledAtMs !== null,
    limits: {
      tenantRate: row.unlimited ? 'none' : (row.tenantRate ?? 'default'),
      keyRate: row.keyRate ?? undefined,
      byteRate: row.bytesUnlimited ? 'none' : (row.byteRate ?? 'default'),
      dailyQuota: row.dailyQuota ?? undefined,
    },
  };
}

/** When an API key was last used, as one process saw it. */
export interface KeyUse {
  readonly apiKeyId: string;
  readonly usedAtMs: number;
}

/**
 * Advances the last-used times of API keys, by at least `stepMs`. So if several processes see a
 * key, only one of them writes per `stepMs`. Rows are locked in the order of their ids. Idempotent.
 * Rejects after `deadlineMs`.
 */
export async function recordKeyUses(
  pool: Pool,
  uses: readonly KeyUse[],
  stepMs: number,
  deadlineMs: number,
): Promise<void> {
  await queryWithDeadline(
    pool,
    deadlineMs,
    `with locked as (
       select k.api_key_id, used.used_at
         from unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) as used (api_key_id, used_at, step_before)
         join api_keys k on k.api_key_id = used.api_key_id
        where k.last_used_at is null or k.last_used_at <= used.step_before
        order by k.api_key_id
          for no key update of k
     )
     update api_keys k
        set last_used_at = locked.used_at
       from locked
      where k.api_key_id = locked.api_key_id`,
    [
      uses.map(({ apiKeyId }) => apiKeyId),
      uses.map(({ usedAtMs }) => new Date(usedAtMs)),
      uses.map(({ usedAtMs }) => new Date(usedAtMs - stepMs)),
    ],
  );
}
