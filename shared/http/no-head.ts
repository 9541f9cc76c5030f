import type { HttpMiddleware } from './env.ts';
import { fail } from './failures.ts';

/** HEAD is no method of our interfaces; Hono would run the operation of GET and drop its body. */
export const noHead: HttpMiddleware = async (c, next) => {
  if (c.req.raw.method === 'HEAD') return fail(c, '404-01');
  return await next();
};
