import type { HttpMiddleware } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import { API_SECRET_HEADER } from '../../../shared/http/key-headers.ts';

/**
 * Lets pass who shows the key's newest secret; 403-01 for the one of before a rotation, which may have leaked: it must
 * not end its successor, nor outlive itself in another key. Stands behind the credentials check.
 */
export const currentSecret: HttpMiddleware = async (c, next) => {
  if (c.get('secretIsPrevious')) {
    const message = 'is the one of before the rotation: use the new one';
    return fail(c, '403-01', [{ path: API_SECRET_HEADER, message }]);
  }
  return await next();
};
