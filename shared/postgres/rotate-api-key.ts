import { newApiKeySecret } from '../api-key-secrets.ts';
import { epochMs, toMsOrNull } from './epoch-ms.ts';
import { listApiKeys } from './list-api-keys.ts';
import type { Queryable } from './pool.ts';

export interface Rotation {
  readonly apiKeyId: string;
  /** Only a key of this tenant. Default: any tenant. */
  readonly tenantId?: string;
  readonly nowMs: number;
  /**
   * Milliseconds for which the previous secret stays valid; 0 ends all previous secrets
   * immediately.
   */
  readonly overlapMs: number;
}

export type Rotated =
  | {
      readonly ok: true;
      readonly secret: string;
      /**
       * When the previous secret expires, at the latest with the key; null: it is not valid any
       * more.
       */
      readonly previousValidUntilMs: number | null;
      /** When the key itself expires; null: never. */
      readonly expiresAtMs: number | null;
    }
  | { readonly ok: false; readonly why: 'unknown' | 'revoked' | 'expired' }
  | { readonly ok: false; readonly why: 'rotating'; readonly untilMs: number };

/**
 * Gives an API key a new secret. At most two secrets are valid at a time, so an overlap is refused
 * while that of an earlier rotation lasts. Concurrent rotations are serialized.
 */
export async function rotateApiKey(db: Queryable, rotation: Rotation): Promise<Rotated> {
  const { apiKeyId, tenantId, nowMs, overlapMs } = rotation;
  const { secret, sha256 } = newApiKeySecret();
  const { rows } = await db.query<{ valid_until_ms: bigint | null; expires_at_ms: bigint | null }>(
    `update api_keys
        set secret_sha256 = $3::bytea,
            previous_secret_sha256 = case when $5::timestamptz is not null then secret_sha256 end,
            previous_valid_until = case when $5::timestamptz is not null then least($5::timestamptz, expires_at) end
      where api_key_id = $1::text
        and ($2::text is null or tenant_id = $2::text)
        and revoked_at is null
        and (expires_at is null or expires_at > $4::timestamptz)
        and ($5::timestamptz is null or previous_valid_until is null or previous_valid_until <= $4::timestamptz)
  returning ${epochMs('previous_valid_until')} as valid_until_ms, ${epochMs('expires_at')} as expires_at_ms`,
    [
      apiKeyId,
      tenantId ?? null,
      sha256,
      new Date(nowMs),
      overlapMs === 0 ? null : new Date(nowMs + overlapMs),
    ],
  );
  const [row] = rows;
  if (row) {
    return {
      ok: true,
      secret,
      previousValidUntilMs: toMsOrNull(row.valid_until_ms),
      expiresAtMs: toMsOrNull(row.expires_at_ms),
    };
  }
  const [key] = await listApiKeys(db, { tenantId, apiKeyId });
  if (!key) return { ok: false, why: 'unknown' };
  if (key.revokedAtMs !== null) return { ok: false, why: 'revoked' };
  if (key.previousValidUntilMs !== null && key.previousValidUntilMs > nowMs) {
    return { ok: false, why: 'rotating', untilMs: key.previousValidUntilMs };
  }
  return { ok: false, why: 'expired' };
}
