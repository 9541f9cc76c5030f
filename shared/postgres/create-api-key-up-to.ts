import { createApiKey, type NewApiKey } from './create-api-key.ts';
import { inTransaction, type Pool } from './pool.ts';

/**
 * As {@link createApiKey}, unless the tenant has `validKeysMax` keys or more that are neither revoked nor expired when the
 * key is made: then undefined. Of several at once one waits for the other, so that together they stay within it.
 */
export async function createApiKeyUpTo(
  pool: Pool,
  validKeysMax: number,
  key: NewApiKey,
): Promise<string | undefined> {
  return await inTransaction(pool, async (client) => {
    await client.query('select 1 from tenants where tenant_id = $1::text for no key update', [key.tenantId]);
    const { rows } = await client.query<{ valid: number }>(
      `select count(*)::integer as valid
         from api_keys
        where tenant_id = $1::text
          and revoked_at is null
          and (expires_at is null or expires_at > $2::timestamptz)`,
      [key.tenantId, new Date(key.createdAtMs)],
    );
    return rows[0]!.valid < validKeysMax ? await createApiKey(client, key) : undefined;
  });
}
