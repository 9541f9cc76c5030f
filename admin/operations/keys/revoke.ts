import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { answerEmpty, answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { revokeApiKey, revokeApiKeyAndCreated } from '../../../shared/postgres/api-keys.ts';
import { isKeyId, readPathId } from '../../request/path-id.ts';
import type { KeysDeps } from './create.ts';

const PARAMETER = 'disable';
/** The only value of the parameter `disable`. */
const CREATED = 'created';

/**
 * Handles `DELETE /admin/v1/keys/{apiKeyId}?disable=created`: revokes an API key permanently;
 * idempotent. With `disable=created`, also revokes the keys that this key created, directly or
 * indirectly, and disables the webhook endpoints that any of these keys created.
 */
export function revokeKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isKeyId);
    if (id.refusal) return refuse(c, id.refusal);
    const parameters = new URL(c.req.url).searchParams;
    const problem = problemOf(parameters);
    if (problem) return fail(c, '400-01', [problem]);
    const { tenantId } = c.var.apiKey;
    if (!parameters.has(PARAMETER)) {
      const revoked = await withDatabase(c, () => revokeApiKey(pool, id.id, clock.nowMs(), tenantId));
      if (revoked.refusal) return refuse(c, revoked.refusal);
      return revoked.value === undefined ? fail(c, '404-01') : answerEmpty(c, 204);
    }
    const revoked = await withDatabase(c, () => revokeApiKeyAndCreated(pool, id.id, clock.nowMs(), tenantId));
    if (revoked.refusal) return refuse(c, revoked.refusal);
    if (!revoked.value) return fail(c, '404-01');
    const { revokedKeys, disabledEndpoints } = revoked.value;
    return answerJson(c, { revokedKeys, disabledEndpoints });
  };
}

/**
 * Returns the problem of an unknown parameter or value, which would otherwise be ignored silently.
 */
function problemOf(parameters: URLSearchParams): ErrorDetail | undefined {
  for (const name of parameters.keys()) {
    if (name !== PARAMETER) return { path: 'query', message: `must have no parameter except ${PARAMETER}` };
  }
  const given = parameters.getAll(PARAMETER);
  if (given.length > 1) return { path: PARAMETER, message: 'must be given once' };
  if (given[0] !== undefined && given[0] !== CREATED) {
    return { path: PARAMETER, message: `must be ${CREATED}` };
  }
  return undefined;
}
