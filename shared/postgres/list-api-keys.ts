import type { Queryable } from './pool.ts';

/** A key as operators see it; of its secret nothing. */
export interface ApiKeyDescription {
  readonly apiKeyId: string;
  readonly tenantId: string;
  /** The tenant's name. */
  readonly tenant: string;
  /** Null: it was given none. */
  readonly name: string | null;
  readonly scopes: readonly string[];
  /** Requests a second of this key alone; null leaves it to the tenant's. */
  readonly rate: number | null;
  readonly createdAtMs: number;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** Until when the secret of before the last rotation is valid; null where there is none. */
  readonly previousValidUntilMs: number | null;
  /** Behind by up to a minute; null: never. */
  readonly lastUsedAtMs: number | null;
}

interface Row {
  readonly api_key_id: string;
  readonly tenant_id: string;
  readonly tenant: string;
  readonly name: string | null;
  readonly scopes: string[];
  readonly request_rate: number | null;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly previous_valid_until: Date | null;
  readonly last_used_at: Date | null;
}

/**
 * The keys of one tenant, or of all, by the tenant's name and oldest first, revoked and expired ones included; or the
 * one of that id among them.
 */
export async function listApiKeys(
  db: Queryable,
  tenantId?: string,
  apiKeyId?: string,
): Promise<ApiKeyDescription[]> {
  const { rows } = await db.query<Row>(
    `select k.api_key_id, k.tenant_id, t.name as tenant, k.name, k.scopes, k.request_rate, k.created_at, k.expires_at,
            k.revoked_at, k.previous_valid_until, k.last_used_at
       from api_keys k
       join tenants t on t.tenant_id = k.tenant_id
      where ($1::text is null or k.tenant_id = $1::text) and ($2::text is null or k.api_key_id = $2::text)
      order by t.name, k.created_at, k.api_key_id`,
    [tenantId ?? null, apiKeyId ?? null],
  );
  return rows.map((row) => ({
    apiKeyId: row.api_key_id,
    tenantId: row.tenant_id,
    tenant: row.tenant,
    name: row.name,
    scopes: row.scopes,
    rate: row.request_rate,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at?.getTime() ?? null,
    revokedAtMs: row.revoked_at?.getTime() ?? null,
    previousValidUntilMs: row.previous_valid_until?.getTime() ?? null,
    lastUsedAtMs: row.last_used_at?.getTime() ?? null,
  }));
}
