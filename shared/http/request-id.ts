import type { IdGenerator } from '../ids.ts';
import type { HttpMiddleware } from './env.ts';
import { withoutOwnSecret } from './key-headers.ts';

export const REQUEST_ID_HEADER = 'x-request-id';

const USABLE = /^[A-Za-z0-9._-]{1,128}$/;

/** Names the request: the caller's `x-request-id` where it is usable, else a new id; sent back with every answer. */
export function requestId(nextId: IdGenerator): HttpMiddleware {
  return async (c, next) => {
    // One that holds the secret is not usable: it would be logged, stored and sent back.
    const given = withoutOwnSecret(c, c.req.header(REQUEST_ID_HEADER) ?? '');
    const id = USABLE.test(given) ? given : nextId();
    c.set('requestId', id);
    c.header(REQUEST_ID_HEADER, id);
    await next();
  };
}
