import { epochMs, toMs } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

/**
 * Revokes an API key. Returns when it was revoked, in milliseconds since the Unix epoch (a key that
 * was revoked already keeps its time); undefined when it does not exist, or belongs to another
 * tenant than the given one. Takes effect when gateways refresh their keys.
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
