import type { Clock } from '../../../shared/clock.ts';
import { readKeyRequest } from '../../../shared/contracts/api-keys.ts';
import type { ErrorDetail, Refusal } from '../../../shared/contracts/errors.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import { describeApiKey } from '../../../shared/http/api-key-auth/describe-api-key.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import { listApiKeys } from '../../../shared/postgres/api-keys.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { KEYS_PER_DAY_MAX, VALID_KEYS_MAX } from '../../limits/policies.ts';
import { type CreatedApiKey, createApiKeyInLimits } from '../../sql/api-keys.ts';
import { grantProblem } from './callers-key.ts';

export interface KeysDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  /** Maximum API keys that a tenant's keys may create in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
}

/** The detail of a refusal because the tenant has too many valid API keys. */
export const TOO_MANY = {
  path: 'body',
  message: `the tenant has ${VALID_KEYS_MAX} keys that are neither revoked nor expired: revoke some first`,
};

/** Returns the detail of a refusal because the tenant's keys created too many keys in 24 hours. */
function tooManyPerDay(keysPerDayMax: number): ErrorDetail {
  return {
    path: 'body',
    message: `a tenant's keys create at most ${keysPerDayMax} keys in 24 hours; an operator can create more`,
  };
}

/**
 * Handles `POST /admin/v1/keys`: creates an API key of the caller's tenant. Only this answer shows
 * the key's secret.
 */
export function createKeyOperation({ pool, clock, nextId, keysPerDayMax = KEYS_PER_DAY_MAX }: KeysDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const nowMs = clock.nowMs();
    const parsed = readKeyRequest(c.var.body, nowMs);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { name, scopes, expiresAtMs, rate } = parsed.request;
    const { tenantId } = c.var.apiKey;
    const beyond = grantProblem(c.var.apiKey, parsed.request);
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
      const result = await createApiKeyInLimits(pool, limits, key);
      if (!result.ok) return result;
      const [stored] = await listApiKeys(pool, { tenantId, apiKeyId });
      return { ...result, stored: stored! };
    });
    if (created.refusal) return refuse(c, created.refusal);
    if (!created.value.ok) return refuse(c, refusalOf(created.value.why, keysPerDayMax));
    const { secret, stored } = created.value;
    const { apiKeyId, ...described } = describeApiKey(stored, nowMs);
    return answerJson(c, { apiKeyId, apiKeySecret: secret, ...described }, 201);
  };
}

function refusalOf(why: Extract<CreatedApiKey, { ok: false }>['why'], keysPerDayMax: number): Refusal {
  switch (why) {
    case 'valid-keys':
      return { code: '409-01', details: [TOO_MANY] };
    case 'keys-per-day':
      return { code: '422-01', details: [tooManyPerDay(keysPerDayMax)] };
    case 'maker-revoked':
      return { code: '401-01' };
  }
}
