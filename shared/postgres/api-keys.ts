import { newApiKeySecret } from '../api-key-secrets.ts';
import { inTransaction, type Pool, type Queryable } from './pool.ts';
import { epochMs, immutableEpochMs, toDate } from './times.ts';

/**
 * Management of API keys by operators and tenants. Requests look keys up with api-key-lookup.ts.
 */

export interface NewApiKey {
  readonly apiKeyId: string;
  readonly tenantId: string;
  /** A display name. */
  readonly name?: string | null;
  readonly scopes: readonly string[];
  /** Requests per second of this key; undefined: only the tenant's rate applies. */
  readonly rate: number | undefined;
  readonly createdAtMs: number;
  /** When the key expires. Default: never. */
  readonly expiresAtMs?: number | null;
  /** The API key that creates this one. Default: none, for the command. */
  readonly createdBy?: string | null;
}

/** Adds an API key and returns its secret, of which only the SHA-256 is stored. */
export async function createApiKey(db: Queryable, key: NewApiKey): Promise<string> {
  const { secret, sha256 } = newApiKeySecret();
  await db.query(
    `insert into api_keys (api_key_id, tenant_id, secret_sha256, scopes, request_rate, created_at, name, expires_at,
                           created_by)
     values ($1::text, $2::text, $3::bytea, $4::text[], $5::integer, $6::timestamptz, $7::text, $8::timestamptz,
             $9::text)`,
    [
      key.apiKeyId,
      key.tenantId,
      sha256,
      key.scopes,
      key.rate ?? null,
      new Date(key.createdAtMs),
      key.name ?? null,
      toDate(key.expiresAtMs),
      key.createdBy ?? null,
    ],
  );
  return secret;
}

/** An API key as operators see it, without its secret. */
export interface ApiKeyDescription {
  readonly apiKeyId: string;
  readonly tenantId: string;
  /** The tenant's name. */
  readonly tenant: string;
  /** The key's display name; null: none. */
  readonly name: string | null;
  readonly scopes: readonly string[];
  /** Requests per second of this key; null: only the tenant's rate applies. */
  readonly rate: number | null;
  readonly createdAtMs: number;
  /**
   * The API key that created this one; null: created by the command, or by a release that did not
   * store it.
   */
  readonly createdBy: string | null;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** When the previous secret expires; null if there is none. */
  readonly previousValidUntilMs: number | null;
  /** When the key was last used, with a delay of up to one minute; null: never. */
  readonly lastUsedAtMs: number | null;
}

export interface ApiKeyFilter {
  /** Only keys of this tenant. Default: of all tenants. */
  readonly tenantId?: string | undefined;
  /** Only this key. */
  readonly apiKeyId?: string | undefined;
  /** Only keys that this key created. */
  readonly createdBy?: string | undefined;
  /**
   * Only keys after this one in the list, which is the last key of the previous page. If the key
   * does not exist, the list is empty.
   */
  readonly after?: string | undefined;
  /** Maximum number of keys. Default: no limit. */
  readonly limit?: number | undefined;
}

/**
 * Returns keys, including revoked and expired ones. Keys of a tenant are sorted by age, oldest
 * first; keys of all tenants are first sorted by the tenant's name.
 */
export async function listApiKeys(db: Queryable, filter: ApiKeyFilter): Promise<ApiKeyDescription[]> {
  const { tenantId, apiKeyId, createdBy, after, limit } = filter;
  // Within a tenant the name is constant; without it, an index provides the order.
  const name = tenantId === undefined ? 't.name, ' : '';
  const { rows } = await db.query<ApiKeyDescription>(
    `select k.api_key_id as "apiKeyId", k.tenant_id as "tenantId", t.name as tenant, k.name, k.scopes,
            k.request_rate as rate, ${epochMs('k.created_at')} as "createdAtMs", k.created_by as "createdBy",
            ${epochMs('k.expires_at')} as "expiresAtMs", ${epochMs('k.revoked_at')} as "revokedAtMs",
            ${epochMs('k.previous_valid_until')} as "previousValidUntilMs",
            ${epochMs('k.last_used_at')} as "lastUsedAtMs"
       from api_keys k
       join tenants t on t.tenant_id = k.tenant_id
      where ($1::text is null or k.tenant_id = $1::text)
        and ($2::text is null or k.api_key_id = $2::text)
        and ($3::text is null or k.created_by = $3::text)
        and ($4::text is null
             or (${name}k.created_at, k.api_key_id) > (select ${name}k.created_at, k.api_key_id
                                                         from api_keys k
                                                         join tenants t on t.tenant_id = k.tenant_id
                                                        where k.api_key_id = $4::text))
      order by ${name}k.created_at, k.api_key_id
      limit $5::integer`,
    [tenantId ?? null, apiKeyId ?? null, createdBy ?? null, after ?? null, limit ?? null],
  );
  return rows;
}

export interface Rotation {
  readonly apiKeyId: string;
  /** Only rotates a key of this tenant. Default: of any tenant. */
  readonly tenantId?: string;
  readonly nowMs: number;
  /**
   * Milliseconds for which the previous secret stays valid; with 0, previous secrets become invalid
   * immediately.
   */
  readonly overlapMs: number;
}

export type Rotated =
  | {
      readonly ok: true;
      readonly secret: string;
      /**
       * When the previous secret expires, which is not later than the key; null: the previous
       * secret is no longer valid.
       */
      readonly previousValidUntilMs: number | null;
      /** When the key itself expires; null: never. */
      readonly expiresAtMs: number | null;
    }
  | { readonly ok: false; readonly why: 'unknown' | 'revoked' | 'expired' }
  | { readonly ok: false; readonly why: 'rotating'; readonly untilMs: number };

/**
 * Gives an API key a new secret. At most two secrets are valid at a time, so an overlap is refused
 * during the overlap of an earlier rotation. Concurrent rotations are serialized.
 */
export async function rotateApiKey(db: Queryable, rotation: Rotation): Promise<Rotated> {
  const { apiKeyId, tenantId, nowMs, overlapMs } = rotation;
  const { secret, sha256 } = newApiKeySecret();
  const { rows } = await db.query<Pick<ApiKeyDescription, 'previousValidUntilMs' | 'expiresAtMs'>>(
    `update api_keys
        set secret_sha256 = $3::bytea,
            previous_secret_sha256 = case when $5::timestamptz is not null then secret_sha256 end,
            previous_valid_until = case when $5::timestamptz is not null then least($5::timestamptz, expires_at) end
      where api_key_id = $1::text
        and ($2::text is null or tenant_id = $2::text)
        and revoked_at is null
        and (expires_at is null or expires_at > $4::timestamptz)
        and ($5::timestamptz is null or previous_valid_until is null or previous_valid_until <= $4::timestamptz)
  returning ${immutableEpochMs('previous_valid_until')} as "previousValidUntilMs",
            ${immutableEpochMs('expires_at')} as "expiresAtMs"`,
    [
      apiKeyId,
      tenantId ?? null,
      sha256,
      new Date(nowMs),
      overlapMs === 0 ? null : new Date(nowMs + overlapMs),
    ],
  );
  const [rotated] = rows;
  if (rotated) return { ok: true, secret, ...rotated };
  const [key] = await listApiKeys(db, { tenantId, apiKeyId });
  if (!key) return { ok: false, why: 'unknown' };
  if (key.revokedAtMs !== null) return { ok: false, why: 'revoked' };
  if (key.previousValidUntilMs !== null && key.previousValidUntilMs > nowMs) {
    return { ok: false, why: 'rotating', untilMs: key.previousValidUntilMs };
  }
  return { ok: false, why: 'expired' };
}

/**
 * Revokes an API key. Returns when the key was revoked, in milliseconds since the Unix epoch; an
 * earlier revocation keeps its time. Returns undefined if the key does not exist, or belongs to
 * another tenant than the given one. Takes effect when gateways refresh their keys.
 */
export async function revokeApiKey(
  db: Queryable,
  apiKeyId: string,
  revokedAtMs: number,
  tenantId?: string,
): Promise<number | undefined> {
  const { rows } = await db.query<{ revokedAtMs: number }>(
    `update api_keys set revoked_at = coalesce(revoked_at, $2::timestamptz)
      where api_key_id = $1 and ($3::text is null or tenant_id = $3::text)
  returning ${immutableEpochMs('revoked_at')} as "revokedAtMs"`,
    [apiKeyId, new Date(revokedAtMs), tenantId ?? null],
  );
  return rows[0]?.revokedAtMs;
}

export interface RevokedTree {
  /** When the key itself was revoked; an earlier revocation keeps its time. */
  readonly revokedAtMs: number;
  /** Ids of the keys that this call revoked, including the key itself. */
  readonly revokedKeys: readonly string[];
  /** Ids of the endpoints that this call disabled. */
  readonly disabledEndpoints: readonly string[];
}

/** The reason of an endpoint that was disabled because its creator was revoked. */
const REASON = 'revoked';

/**
 * Revokes an API key and, recursively, the keys that it created. Disables the webhook endpoints
 * that any of these keys created. Returns undefined if the key does not exist, or belongs to
 * another tenant than the given one. Idempotent.
 */
export async function revokeApiKeyAndCreated(
  pool: Pool,
  apiKeyId: string,
  revokedAtMs: number,
  tenantId?: string,
): Promise<RevokedTree | undefined> {
  return await inTransaction(pool, async (client) => {
    // No key or endpoint can be created until this transaction ends, because creating one locks the
    // tenant too.
    const { rows: owners } = await client.query<{ tenantId: string }>(
      `select tenant_id as "tenantId" from tenants
        where tenant_id = (select tenant_id from api_keys
                            where api_key_id = $1::text and ($2::text is null or tenant_id = $2::text))
          for no key update`,
      [apiKeyId, tenantId ?? null],
    );
    const owner = owners[0]?.tenantId;
    if (owner === undefined) return undefined;
    // Locks in the order of ids, as all statements that change several keys do.
    const { rows: keys } = await client.query<Pick<ApiKeyDescription, 'apiKeyId' | 'revokedAtMs'>>(
      `with recursive made as (
         select $2::text as api_key_id
         union
         select k.api_key_id from made join api_keys k on k.tenant_id = $1::text and k.created_by = made.api_key_id
       )
       select k.api_key_id as "apiKeyId", ${epochMs('k.revoked_at')} as "revokedAtMs"
         from api_keys k
        where k.tenant_id = $1::text and k.api_key_id in (select api_key_id from made)
        order by k.api_key_id
          for no key update`,
      [owner, apiKeyId],
    );
    const ids = keys.map((key) => key.apiKeyId);
    await client.query(
      `update api_keys set revoked_at = $3::timestamptz
        where tenant_id = $1::text and api_key_id = any($2::text[]) and revoked_at is null`,
      [owner, ids, new Date(revokedAtMs)],
    );
    const { rows: endpoints } = await client.query<{ endpointId: string }>(
      `update webhook_endpoints
          set state = 'disabled', disabled_reason = $3::text, updated_at = $4::timestamptz
        where tenant_id = $1::text and created_by = any($2::text[]) and state = 'enabled'
    returning endpoint_id as "endpointId"`,
      [owner, ids, REASON, new Date(revokedAtMs)],
    );
    return {
      revokedAtMs: keys.find((key) => key.apiKeyId === apiKeyId)?.revokedAtMs ?? revokedAtMs,
      revokedKeys: keys.filter((key) => key.revokedAtMs === null).map((key) => key.apiKeyId),
      disabledEndpoints: endpoints.map(({ endpointId }) => endpointId).sort(),
    };
  });
}
