import { setHeader } from './answers.ts';
import type { HttpContext } from './env.ts';

export const API_ID_HEADER = 'service-api-id';
export const API_SECRET_HEADER = 'service-api-secret';
export const REQUEST_ID_HEADER = 'x-request-id';

/** Minimum length of a secret. Shorter values may occur in other texts by chance. */
const SECRET_LENGTH_MIN = 16;

/** Returns the token of the header `Authorization: Bearer`; undefined if there is none. */
export function bearerToken(c: HttpContext): string | undefined {
  return /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1];
}

/**
 * Secrets that can be recognized in any text: portal tokens and signing secrets by how they begin,
 * secrets of API keys as a whole segment of a path, because other texts may have 43 characters too.
 */
const RECOGNIZABLE = /portal_[\w-]+\.[\w-]+|whsec_[\w+/=%-]+|(?<=\/)[\w-]{43}(?=\/|$)/g;

/**
 * Returns the text without the secret or the token of the request, and without others that have a
 * recognizable form: some callers send them in other places by mistake.
 */
export function withoutOwnSecret(c: HttpContext, text: string): string {
  let rest = text.replace(RECOGNIZABLE, '[redacted]');
  for (const secret of [c.req.header(API_SECRET_HEADER), bearerToken(c)]) {
    if (secret && secret.length >= SECRET_LENGTH_MIN) rest = rest.replaceAll(secret, '[redacted]');
  }
  return rest;
}

/**
 * The headers that keep shared caches from storing a response, or from returning it to another
 * caller. Caches do not know that the API key is in headers. Refusals carry these headers too,
 * since caches may store a 404 by default (RFC 9111 §4.2.2).
 */
export const UNCACHED = {
  'cache-control': 'no-store',
  vary: `${API_ID_HEADER}, ${API_SECRET_HEADER}`,
} as const;

/** Adds {@link UNCACHED} to the answer. */
export function setUncached(c: HttpContext): void {
  setHeader(c, 'cache-control', UNCACHED['cache-control']);
  setHeader(c, 'vary', UNCACHED.vary);
}
