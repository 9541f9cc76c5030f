import type { Clock } from '../../../shared/clock.ts';
import { readKeyRequest } from '../../../shared/contracts/api-keys.ts';
import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { describeApiKey } from '../../../shared/http/api-key-auth/describe-api-key.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import { listApiKeys } from '../../../shared/postgres/api-keys.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { KEYS_PER_DAY_MAX, VALID_KEYS_MAX } from '../../limits/bounds.ts';
import { withDatabase } from '../../request/database.ts';
import { type CreatedApiKey, createApiKeyUpTo } from '../../sql/api-keys.ts';
import { beyondGrant } from './grant.ts';

export interface KeysDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** Keys that a tenant's keys may make in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
}

/** What is said where the tenant has as many keys as the interface makes. */
export const TOO_MANY = {
  path: 'body',
  message: `the tenant has ${VALID_KEYS_MAX} keys that are neither revoked nor expired: revoke some first`,
};

/** What is said where the tenant's keys have made as many keys in a day as they may. */
export function tooManyOfDay(keysPerDayMax: number): ErrorDetail {
  return {
    path: 'body',
    message: `a tenant's keys make at most ${keysPerDayMax} keys in 24 hours; whoever runs the service can make more`,
  };
}

/** `POST /admin/v1/keys`: makes a key of the caller's tenant. Its secret is in this answer and in no other. */
export function createKeyOperation({ pool, clock, nextId, keysPerDayMax = KEYS_PER_DAY_MAX }: KeysDeps) {
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
        createdBy: c.var.apiKey.apiKeyId,
      };
      const limits = { validMax: VALID_KEYS_MAX, perDayMax: keysPerDayMax };
      const made = await createApiKeyUpTo(pool, limits, key);
      if (!made.ok) return refusalOf(c, made.why, keysPerDayMax);
      const [stored] = await listApiKeys(pool, { tenantId, apiKeyId });
      const { apiKeyId: id, ...described } = describeApiKey(stored!, nowMs);
      return c.json({ apiKeyId: id, apiKeySecret: made.secret, ...described }, 201);
    });
    return created.ok ? created.value : created.answer;
  };
}

function refusalOf(
  c: HttpContext,
  why: Extract<CreatedApiKey, { ok: false }>['why'],
  keysPerDayMax: number,
): Response {
  switch (why) {
    case 'valid-keys':
      return fail(c, '409-01', [TOO_MANY]);
    case 'keys-per-day':
      return fail(c, '422-01', [tooManyOfDay(keysPerDayMax)]);
    case 'maker-revoked':
      return fail(c, '401-01');
  }
}
