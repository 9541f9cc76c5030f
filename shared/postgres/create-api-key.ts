import { newApiKeySecret } from '../api-key-secrets.ts';
import type { Queryable } from './pool.ts';

export interface NewApiKey {
  readonly apiKeyId: string;
  readonly tenantId: string;
  /** A display name. */
  readonly name?: string | null;
  readonly scopes: readonly string[];
  /** Requests per second of this key; undefined: the tenant's rate only. */
  readonly rate: number | undefined;
  readonly createdAtMs: number;
  /** Default: never. */
  readonly expiresAtMs?: number | null;
  /** The API key that creates it. Default: none, for the command. */
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
      key.expiresAtMs == null ? null : new Date(key.expiresAtMs),
      key.createdBy ?? null,
    ],
  );
  return secret;
}
