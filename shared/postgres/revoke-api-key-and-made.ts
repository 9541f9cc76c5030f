import { inTransaction, type Pool } from './pool.ts';

export interface RevokedTree {
  /** When the key itself was revoked; a key that was revoked already keeps its time. */
  readonly revokedAtMs: number;
  /** Ids of the keys that this call revoked, the key itself included. */
  readonly revokedKeys: readonly string[];
  /** Ids of the endpoints that this call disabled. */
  readonly disabledEndpoints: readonly string[];
}

/** The reason of an endpoint that was disabled because its creator was revoked. */
const REASON = 'revoked';

/**
 * Revokes an API key and, recursively, the keys that it created, and disables the webhook endpoints
 * that any of them created. Returns undefined when the key does not exist, or belongs to another
 * tenant than the given one. Idempotent.
 */
export async function revokeApiKeyAndMade(
  pool: Pool,
  apiKeyId: string,
  revokedAtMs: number,
  tenantId?: string,
): Promise<RevokedTree | undefined> {
  return await inTransaction(pool, async (client) => {
    // No key or endpoint can be created until this ends: creating one locks the tenant too.
    const { rows: owners } = await client.query<{ tenant_id: string }>(
      `select tenant_id from tenants
        where tenant_id = (select tenant_id from api_keys
                            where api_key_id = $1::text and ($2::text is null or tenant_id = $2::text))
          for no key update`,
      [apiKeyId, tenantId ?? null],
    );
    const owner = owners[0]?.tenant_id;
    if (owner === undefined) return undefined;
    // Locked in the order of their ids, as in every statement that changes several keys.
    const { rows: keys } = await client.query<{ api_key_id: string; revoked_at: Date | null }>(
      `with recursive made as (
         select $2::text as api_key_id
         union
         select k.api_key_id from made join api_keys k on k.tenant_id = $1::text and k.created_by = made.api_key_id
       )
       select k.api_key_id, k.revoked_at
         from api_keys k
        where k.tenant_id = $1::text and k.api_key_id in (select api_key_id from made)
        order by k.api_key_id
          for no key update`,
      [owner, apiKeyId],
    );
    const ids = keys.map(({ api_key_id }) => api_key_id);
    await client.query(
      `update api_keys set revoked_at = $3::timestamptz
        where tenant_id = $1::text and api_key_id = any($2::text[]) and revoked_at is null`,
      [owner, ids, new Date(revokedAtMs)],
    );
    const { rows: endpoints } = await client.query<{ endpoint_id: string }>(
      `update webhook_endpoints
          set state = 'disabled', disabled_reason = $3::text, updated_at = $4::timestamptz
        where tenant_id = $1::text and created_by = any($2::text[]) and state = 'enabled'
    returning endpoint_id`,
      [owner, ids, REASON, new Date(revokedAtMs)],
    );
    const before = keys.find(({ api_key_id }) => api_key_id === apiKeyId)?.revoked_at;
    return {
      revokedAtMs: before?.getTime() ?? revokedAtMs,
      revokedKeys: keys.filter(({ revoked_at }) => revoked_at === null).map(({ api_key_id }) => api_key_id),
      disabledEndpoints: endpoints.map(({ endpoint_id }) => endpoint_id).sort(),
    };
  });
}
