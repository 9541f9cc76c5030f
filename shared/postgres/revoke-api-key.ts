import type { Queryable } from './pool.ts';

/**
 * Revokes a key and resolves with since when it is revoked (one that was keeps its time), in milliseconds; undefined when
 * there is no such key. Gateways learn of it when they refresh their keys.
 */
export async function revokeApiKey(
  db: Queryable,
  apiKeyId: string,
  revokedAtMs: number,
): Promise<number | undefined> {
  const { rows } = await db.query<{ revoked_at: Date }>(
    `update api_keys set revoked_at = coalesce(revoked_at, $2::timestamptz)
      where api_key_id = $1
  returning revoked_at`,
    [apiKeyId, new Date(revokedAtMs)],
  );
  return rows[0]?.revoked_at.getTime();
}
