import type { HttpContext } from './env.ts';

/** The headers that carry an API key. */
export const API_ID_HEADER = 'service-api-id';
export const API_SECRET_HEADER = 'service-api-secret';

/** Short ones are no secrets of ours, and stand in any text by chance. */
const LENGTH_MIN = 16;

/** The text without the secret that the request itself came with: callers put it into the wrong place now and then. */
export function withoutOwnSecret(c: HttpContext, text: string): string {
  const secret = c.req.header(API_SECRET_HEADER) ?? '';
  return secret.length < LENGTH_MIN ? text : text.replaceAll(secret, '[redacted]');
}
