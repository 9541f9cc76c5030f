import type { Clock } from '../../shared/clock.ts';
import { readKeyRequest } from '../../shared/contracts/api-keys.ts';
import { describeApiKey } from '../../shared/describe-api-key.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import { createApiKeyUpTo } from '../../shared/postgres/create-api-key-up-to.ts';
import { listApiKeys } from '../../shared/postgres/list-api-keys.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { withDatabase } from '../database.ts';
import { beyondGrant } from '../key-grant.ts';
import { VALID_KEYS_MAX } from '../limits.ts';

export interface KeysDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

/** What is said where the tenant has as many keys as the interface makes. */
export const TOO_MANY = {
  path: 'body',
  message: `the tenant has ${VALID_KEYS_MAX} keys that are neither revoked nor expired: revoke some first`,
};

/** `POST /admin/v1/keys`: makes a key of the caller's tenant. Its secret is in this answer and in no other. */
export function createKeyOperation({ pool, clock, nextId }: KeysDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const nowMs = clock.nowMs();
    const parsed = readKeyRequest(c.var.body, nowMs);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { name, scopes, expiresAtMs, rate } = parsed.request;
    const { tenantId } = c.var.apiKey;
    const beyond = beyondGrant(c.var.apiKey, parsed.request);
    if (beyond.length > 0) return fail(c, '403-01', beyond);
    const created = await withDatabase(c, async () => {
      const apiKeyId = nextId();
      const key = {
        apiKeyId,
        tenantId,
        name,
        scopes,
        rate: rate ?? undefined,
        createdAtMs: nowMs,
        expiresAtMs,
      };
      const apiKeySecret = await createApiKeyUpTo(pool, VALID_KEYS_MAX, key);
      if (apiKeySecret === undefined) return fail(c, '409-01', [TOO_MANY]);
      const [stored] = await listApiKeys(pool, tenantId, apiKeyId);
      const { apiKeyId: id, ...described } = describeApiKey(stored!, nowMs);
      return c.json({ apiKeyId: id, apiKeySecret, ...described }, 201);
    });
    return created.ok ? created.value : created.answer;
  };
}
