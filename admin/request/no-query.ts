import type { HttpMiddleware } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';

/** For what has no query parameters: a filter that is not known must not look as if it had been applied. */
export const noQuery: HttpMiddleware = async (c, next) => {
  if (new URL(c.req.url).searchParams.size === 0) return await next();
  return fail(c, '400-01', [{ path: 'query', message: 'must hold no parameters' }]);
};
