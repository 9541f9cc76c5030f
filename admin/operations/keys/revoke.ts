import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { revokeApiKey, revokeApiKeyAndMade } from '../../../shared/postgres/api-keys.ts';
import type { KeysDeps } from './create.ts';
import { readKeyId } from './key-id.ts';

const PARAMETER = 'disable';
/** What the parameter may be. */
const CREATED = 'created';

/**
 * `DELETE /admin/v1/keys/{apiKeyId}?disable=created`: refused from now on, for ever; one that is revoked stays so. With
 * `disable=created` the keys that it made are revoked too, those that these made and so on, and the webhook endpoints that
 * any of them made are disabled.
 */
export function revokeKeyOperation({ pool, clock }: Pick<KeysDeps, 'pool' | 'clock'>) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readKeyId(c);
    if (id.refusal) return refuse(c, id.refusal);
    const parameters = new URL(c.req.url).searchParams;
    const problem = problemOf(parameters);
    if (problem) return fail(c, '400-01', [problem]);
    const { tenantId } = c.var.apiKey;
    if (!parameters.has(PARAMETER)) {
      const revoked = await withDatabase(c, () => revokeApiKey(pool, id.apiKeyId, clock.nowMs(), tenantId));
      if (revoked.refusal) return refuse(c, revoked.refusal);
      return revoked.value === undefined ? fail(c, '404-01') : c.body(null, 204);
    }
    const revoked = await withDatabase(c, () =>
      revokeApiKeyAndMade(pool, id.apiKeyId, clock.nowMs(), tenantId),
    );
    if (revoked.refusal) return refuse(c, revoked.refusal);
    if (!revoked.value) return fail(c, '404-01');
    const { revokedKeys, disabledEndpoints } = revoked.value;
    return c.json({ revokedKeys, disabledEndpoints });
  };
}

/** A parameter that is not known must not look as if it had been applied. */
function problemOf(parameters: URLSearchParams): ErrorDetail | undefined {
  for (const name of parameters.keys()) {
    if (name !== PARAMETER) return { path: 'query', message: `must hold no parameter but ${PARAMETER}` };
  }
  const given = parameters.getAll(PARAMETER);
  if (given.length > 1) return { path: PARAMETER, message: 'must be given once' };
  if (given[0] !== undefined && given[0] !== CREATED) {
    return { path: PARAMETER, message: `must be ${CREATED}` };
  }
  return undefined;
}
