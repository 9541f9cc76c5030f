import { epochMs, toMs } from './epoch-ms.ts';
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
  const { rows } = await db.query<{ revoked_at_ms: bigint }>(
    `update api_keys set revoked_at = coalesce(revoked_at, $2::timestamptz)
      where api_key_id = $1 and ($3::text is null or tenant_id = $3::text)
  returning ${epochMs('revoked_at')} as revoked_at_ms`,
    [apiKeyId, new Date(revokedAtMs), tenantId ?? null],
  );
  const [row] = rows;
  return row && toMs(row.revoked_at_ms);
}
