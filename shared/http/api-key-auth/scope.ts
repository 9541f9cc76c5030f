import { hasScope, type Scope } from '../../contracts/scopes.ts';
import type { HttpMiddleware } from '../env.ts';
import { fail } from '../failures.ts';

/** Lets pass keys that were granted `scope`; 403-01 else. Stands behind the credentials check. */
export function requireScope(scope: Scope): HttpMiddleware {
  return async (c, next) => {
    if (!hasScope(c.get('apiKey').scopes, scope)) {
      return fail(c, '403-01', [{ path: 'service-api-id', message: `lacks the scope ${scope}` }]);
    }
    return await next();
  };
}
