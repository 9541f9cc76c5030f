import { epochMs, toMs, toMsOrNull } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

/** An API key as operators see it, without its secret. */
export interface ApiKeyDescription {
  readonly apiKeyId: string;
  readonly tenantId: string;
  /** The tenant's name. */
  readonly tenant: string;
  /** Null: none. */
  readonly name: string | null;
  readonly scopes: readonly string[];
  /** Requests per second of this key; null: the tenant's rate only. */
  readonly rate: number | null;
  readonly createdAtMs: number;
  /** The API key that created it; null: the command did, or a release that did not store it. */
  readonly createdBy: string | null;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** When the previous secret expires; null where there is none. */
  readonly previousValidUntilMs: number | null;
  /** Up to a minute late; null: never. */
  readonly lastUsedAtMs: number | null;
}

interface Row {
  readonly api_key_id: string;
  readonly tenant_id: string;
  readonly tenant: string;
  readonly name: string | null;
  readonly scopes: string[];
  readonly request_rate: number | null;
  readonly created_at_ms: bigint;
  readonly created_by: string | null;
  readonly expires_at_ms: bigint | null;
  readonly revoked_at_ms: bigint | null;
  readonly previous_valid_until_ms: bigint | null;
  readonly last_used_at_ms: bigint | null;
}

export interface ApiKeyFilter {
  /** Default: all tenants. */
  readonly tenantId?: string | undefined;
  /** Only this key. */
  readonly apiKeyId?: string | undefined;
  /** Only keys that this one created. */
  readonly createdBy?: string | undefined;
  /**
   * Only keys after this one in the list: the last one of the previous page. No keys where it does
   * not exist.
   */
  readonly after?: string | undefined;
  /** Keys at most. Default: all. */
  readonly limit?: number | undefined;
}

/**
 * Returns keys, revoked and expired ones included: of one tenant oldest first, of all by the
 * tenant's name before that.
 */
export async function listApiKeys(db: Queryable, filter: ApiKeyFilter): Promise<ApiKeyDescription[]> {
  const { tenantId, apiKeyId, createdBy, after, limit } = filter;
  // Within a tenant the name is constant; without it, an index provides the order.
  const name = tenantId === undefined ? 't.name, ' : '';
  const { rows } = await db.query<Row>(
    `select k.api_key_id, k.tenant_id, t.name as tenant, k.name, k.scopes, k.request_rate, k.created_by,
            ${epochMs('k.created_at')} as created_at_ms, ${epochMs('k.expires_at')} as expires_at_ms,
            ${epochMs('k.revoked_at')} as revoked_at_ms, ${epochMs('k.last_used_at')} as last_used_at_ms,
            ${epochMs('k.previous_valid_until')} as previous_valid_until_ms
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
  return rows.map((row) => ({
    apiKeyId: row.api_key_id,
    tenantId: row.tenant_id,
    tenant: row.tenant,
    name: row.name,
    scopes: row.scopes,
    rate: row.request_rate,
    createdAtMs: toMs(row.created_at_ms),
    createdBy: row.created_by,
    expiresAtMs: toMsOrNull(row.expires_at_ms),
    revokedAtMs: toMsOrNull(row.revoked_at_ms),
    previousValidUntilMs: toMsOrNull(row.previous_valid_until_ms),
    lastUsedAtMs: toMsOrNull(row.last_used_at_ms),
  }));
}
