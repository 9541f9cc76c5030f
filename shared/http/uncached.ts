import type { HttpMiddleware } from './env.ts';
import { API_ID_HEADER, API_SECRET_HEADER } from './key-headers.ts';

/**
 * What keeps shared caches from storing an answer, and from giving one caller's answer to another: the credentials are in
 * headers that no cache knows. Refusals carry them too, since a cache may store a 404 by default (RFC 9111 §4.2.2).
 */
export const UNCACHED = {
  'cache-control': 'no-store',
  vary: `${API_ID_HEADER}, ${API_SECRET_HEADER}`,
} as const;

/** Marks every answer behind it as one that no cache may store. */
export const uncached: HttpMiddleware = async (c, next) => {
  for (const [name, value] of Object.entries(UNCACHED)) c.header(name, value);
  await next();
};
