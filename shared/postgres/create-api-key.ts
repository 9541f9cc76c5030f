import { createHash, randomBytes } from 'node:crypto';
import type { Queryable } from './pool.ts';

export interface NewApiKey {
  readonly apiKeyId: string;
  readonly tenantId: string;
  readonly scopes: readonly string[];
  /** Requests a second of this key alone; undefined leaves it to the tenant's. */
  readonly rate: number | undefined;
  readonly createdAtMs: number;
}

const SECRET_BYTES = 32;

/** Adds a key and resolves with its secret, of which only the SHA-256 is kept. */
export async function createApiKey(db: Queryable, key: NewApiKey): Promise<string> {
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  await db.query(
    `insert into api_keys (api_key_id, tenant_id, secret_sha256, scopes, request_rate, created_at)
     values ($1::text, $2::text, $3::bytea, $4::text[], $5::integer, $6::timestamptz)`,
    [
      key.apiKeyId,
      key.tenantId,
      createHash('sha256').update(secret).digest(),
      key.scopes,
      key.rate ?? null,
      new Date(key.createdAtMs),
    ],
  );
  return secret;
}
