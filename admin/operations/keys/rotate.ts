import { readRotationRequest } from '../../../shared/contracts/api-keys.ts';
import type { Refusal } from '../../../shared/contracts/errors.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { listApiKeys, type Rotated, rotateApiKey } from '../../../shared/postgres/api-keys.ts';
import { isKeyId, readPathId } from '../../request/path-id.ts';
import { grantProblem } from './callers-key.ts';
import type { KeysDeps } from './create.ts';

/**
 * Handles `POST /admin/v1/keys/{apiKeyId}/rotate`: gives the key a new secret. Only this answer
 * shows the new secret. Refuses a key with more rights than the caller's own key, since the new
 * secret would pass on those rights.
 */
export function rotateKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isKeyId, 1);
    if (id.refusal) return refuse(c, id.refusal);
    const parsed = readRotationRequest(c.var.body);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const apiKeyId = id.id;
    const { tenantId } = c.var.apiKey;
    const nowMs = clock.nowMs();
    const rotated = await withDatabase(c, async () => {
      const [key] = await listApiKeys(pool, { tenantId, apiKeyId });
      if (!key) return { ok: false, refusal: { code: '404-01' } } as const;
      const beyond = apiKeyId === c.var.apiKey.apiKeyId ? [] : grantProblem(c.var.apiKey, key);
      if (beyond.length > 0) return { ok: false, refusal: { code: '403-01', details: beyond } } as const;
      const { overlapMs } = parsed.request;
      const result = await rotateApiKey(pool, { apiKeyId, tenantId, nowMs, overlapMs });
      return result.ok ? result : ({ ok: false, refusal: refusalOf(result) } as const);
    });
    if (rotated.refusal) return refuse(c, rotated.refusal);
    if (!rotated.value.ok) return refuse(c, rotated.value.refusal);
    const { secret, previousValidUntilMs } = rotated.value;
    return answerJson(c, {
      apiKeyId,
      apiKeySecret: secret,
      previousSecretValidUntil:
        previousValidUntilMs === null ? null : new Date(previousValidUntilMs).toISOString(),
    });
  };
}

function refusalOf(rotated: Extract<Rotated, { ok: false }>): Refusal {
  switch (rotated.why) {
    case 'unknown':
      return { code: '404-01' };
    case 'rotating': {
      const until = new Date(rotated.untilMs).toISOString();
      const message = `the previous secret is valid until ${until}; 0 ends it and the current one immediately`;
      return { code: '409-01', details: [{ path: 'overlapSeconds', message }] };
    }
    default:
      return { code: '409-01', details: [{ path: 'apiKeyId', message: `the key is ${rotated.why}` }] };
  }
}
