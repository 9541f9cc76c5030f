import { readRotationRequest } from '../../../shared/contracts/api-keys.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import { listApiKeys, type Rotated, rotateApiKey } from '../../../shared/postgres/api-keys.ts';
import { withDatabase } from '../../request/database.ts';
import type { KeysDeps } from './create.ts';
import { beyondGrant } from './grant.ts';
import { keyIdOf } from './key-id.ts';

/**
 * `POST /admin/v1/keys/{apiKeyId}/rotate`: a new secret, in this answer and in no other. Not for a key that may do what
 * the caller's own may not, which its secret would give away.
 */
export function rotateKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = keyIdOf(c, 1);
    if (!id.ok) return id.answer;
    const parsed = readRotationRequest(c.var.body);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { apiKeyId } = id;
    const { tenantId } = c.var.apiKey;
    const nowMs = clock.nowMs();
    const rotated = await withDatabase(c, async () => {
      const [key] = await listApiKeys(pool, { tenantId, apiKeyId });
      if (!key) return fail(c, '404-01');
      const beyond = apiKeyId === c.var.apiKey.apiKeyId ? [] : beyondGrant(c.var.apiKey, key);
      if (beyond.length > 0) return fail(c, '403-01', beyond);
      const { overlapMs } = parsed.request;
      return answerOf(c, apiKeyId, await rotateApiKey(pool, { apiKeyId, tenantId, nowMs, overlapMs }));
    });
    return rotated.ok ? rotated.value : rotated.answer;
  };
}

function answerOf(c: HttpContext, apiKeyId: string, rotated: Rotated): Response {
  if (rotated.ok) {
    const { secret, previousValidUntilMs } = rotated;
    return c.json({
      apiKeyId,
      apiKeySecret: secret,
      previousSecretValidUntil:
        previousValidUntilMs === null ? null : new Date(previousValidUntilMs).toISOString(),
    });
  }
  switch (rotated.why) {
    case 'unknown':
      return fail(c, '404-01');
    case 'rotating': {
      const until = new Date(rotated.untilMs).toISOString();
      const message = `the secret of before the last rotation is valid until ${until}; 0 ends it, and the current one, at once`;
      return fail(c, '409-01', [{ path: 'overlapSeconds', message }]);
    }
    default:
      return fail(c, '409-01', [{ path: 'apiKeyId', message: `the key is ${rotated.why}` }]);
  }
}
