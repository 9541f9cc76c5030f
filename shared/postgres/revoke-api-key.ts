import type { Queryable } from './pool.ts';

/**
 * Revokes a key and resolves with since when it is revoked (one that was keeps its time), in milliseconds; undefined when
 * there is no such key, or none of the tenant that is given. Gateways learn of it when they refresh their keys.
 */
export async function revokeApiKey(
  db: Queryable,
  apiKeyId: string,
  revokedAtMs: number,
  tenantId?: string,
): Promise<number | undefined> {
  const { rows } = await db.query<{ revoked_at: Date }>(
    `update api_keys set revoked_at = coalesce(revoked_at, $2::timestamptz)
      where api_key_id = $1 and ($3::text is null or tenant_id = $3::text)
  returning revoked_at`,
    [apiKeyId, new Date(revokedAtMs), tenantId ?? null],
  );
  return rows[0]?.revoked_at.getTime();
}
