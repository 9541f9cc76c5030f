import type { HttpContext, HttpMiddleware } from './env.ts';

export const API_ID_HEADER = 'service-api-id';
export const API_SECRET_HEADER = 'service-api-secret';
export const REQUEST_ID_HEADER = 'x-request-id';

/** Shorter values are not secrets, and occur in texts by chance. */
const SECRET_LENGTH_MIN = 16;

/**
 * Returns the text without the secret of the request, which callers put into wrong places at times.
 */
export function withoutOwnSecret(c: HttpContext, text: string): string {
  const secret = c.req.header(API_SECRET_HEADER) ?? '';
  return secret.length < SECRET_LENGTH_MIN ? text : text.replaceAll(secret, '[redacted]');
}

/**
 * The headers that keep shared caches from storing an answer, or from returning one caller's answer
 * to another: caches do not know that the API key is in headers. Refusals carry them too, since a
 * cache may store a 404 by default (RFC 9111 §4.2.2).
 */
export const UNCACHED = {
  'cache-control': 'no-store',
  vary: `${API_ID_HEADER}, ${API_SECRET_HEADER}`,
} as const;

/** Adds {@link UNCACHED} to the answers of all routes after it. */
export const uncached: HttpMiddleware = async (c, next) => {
  for (const [name, value] of Object.entries(UNCACHED)) c.header(name, value);
  await next();
};
