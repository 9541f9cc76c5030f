import { answerEmpty, appendHeader, setHeader } from '../../shared/http/answers.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import { isPortalPath } from './portal-access.ts';

/** Headers of answers that scripts of a listed origin may read, in addition to the usual ones. */
const READABLE = 'x-request-id, retry-after, ratelimit, ratelimit-policy';
/** The headers of an API key are not allowed: a key must not reach a browser. */
const SENDABLE = 'authorization, content-type, x-request-id';
const METHODS = 'GET, POST, PATCH, PUT, DELETE';
/** Seconds for which a browser may keep the answer to a preflight request. */
const PREFLIGHT_SECONDS = '600';

/**
 * Returns a function that sets the headers of answers of the paths that portal tokens may call, so
 * that scripts of the listed origins can read them (CORS). Cookies are never allowed.
 */
export function createOriginHeaders(origins: readonly string[]): (c: HttpContext) => void {
  return (c) => {
    if (!isPortalPath(c.req.path)) return;
    appendHeader(c, 'vary', 'authorization');
    if (origins.length === 0) return;
    appendHeader(c, 'vary', 'origin');
    const origin = c.req.header('origin');
    if (origin === undefined || !origins.includes(origin)) return;
    setHeader(c, 'access-control-allow-origin', origin);
    setHeader(c, 'access-control-expose-headers', READABLE);
  };
}

/**
 * Returns the handler of the request that a browser sends before one with a token. {@link
 * createOriginHeaders} has set the answer's origin.
 */
export function answerPreflight(origins: readonly string[]) {
  return (c: HttpContext): Response => {
    const origin = c.req.header('origin');
    if (origin === undefined) return fail(c, '404-01');
    if (!origins.includes(origin)) {
      return fail(c, '403-01', [{ path: 'origin', message: 'is not listed in SLUICE_ADMIN_ORIGINS' }]);
    }
    setHeader(c, 'access-control-allow-methods', METHODS);
    setHeader(c, 'access-control-allow-headers', SENDABLE);
    setHeader(c, 'access-control-max-age', PREFLIGHT_SECONDS);
    return answerEmpty(c, 204);
  };
}
