import { Hono } from 'hono';
import type { Clock } from '../clock.ts';
import { errorCode } from '../errors.ts';
import type { IdGenerator } from '../ids.ts';
import type { Logger } from '../logging.ts';
import { createRateLimitedLog } from '../rate-limited-log.ts';
import type { HttpEnv, HttpMiddleware } from './env.ts';
import { fail, onError, onNotFound } from './failures.ts';
import { REQUEST_ID_HEADER, uncached, withoutOwnSecret } from './headers.ts';
import { type Health, healthRoutes } from './health.ts';

export interface BaseAppOptions {
  readonly nextId: IdGenerator;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The routes without an API key. They set their own caching rules, and are not logged. */
  readonly publicRoutes: readonly Hono[];
}

/**
 * Returns an app with the features that all listeners with operations share. These are request ids,
 * errors, the public routes, no caching, the access log, and no HEAD. Operations are added
 * afterwards.
 */
export function createBaseApp({ nextId, clock, logger, publicRoutes }: BaseAppOptions): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.onError(onError);
  app.notFound(onNotFound);
  app.use(requestId(nextId));
  for (const routes of publicRoutes) app.route('/', routes);
  app.use(uncached, accessLog(logger, clock), noHead);
  return app;
}

/** Returns an app with the health checks only; any other request gets 404-01. */
export function createHealthApp(health: Health, nextId: IdGenerator): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.notFound(onNotFound);
  app.use(requestId(nextId));
  app.route('/', healthRoutes(health));
  app.use(uncached, noHead);
  return app;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * Sets the request id, and returns it with the response: the caller's id if it is valid, else a new
 * one.
 */
function requestId(nextId: IdGenerator): HttpMiddleware {
  return async (c, next) => {
    // An id that contains the request's secret is not valid, because request ids are logged, stored
    // and returned.
    const given = withoutOwnSecret(c, c.req.header(REQUEST_ID_HEADER) ?? '');
    const id = REQUEST_ID.test(given) ? given : nextId();
    c.set('requestId', id);
    c.header(REQUEST_ID_HEADER, id);
    await next();
  };
}

/**
 * Logs one line per request: 503 as a warning and other server errors as errors, both with their
 * cause, and all others at level debug. Warnings and errors are limited to one line per second and
 * kind, since callers without a key can also cause them. The path is logged without the query and
 * without the request's own secret. Headers and bodies are not logged.
 */
function accessLog(logger: Logger, clock: Clock): HttpMiddleware {
  const limited = createRateLimitedLog(logger);
  return async (c, next) => {
    const startedAtMs = clock.nowMs();
    await next();
    const { status } = c.res;
    if (status < 500 && !logger.isLevelEnabled('debug')) return;
    const fields = {
      requestId: c.get('requestId'),
      tenantId: c.get('apiKey')?.tenantId,
      method: c.req.method,
      path: withoutOwnSecret(c, c.req.path),
      status,
      durationMs: clock.nowMs() - startedAtMs,
    };
    if (status < 500) {
      logger.debug(fields, 'request');
      return;
    }
    const err = c.get('cause');
    if (status === 503) limited.warn({ ...fields, err }, 'request refused: unavailable');
    else limited.error({ ...fields, err }, 'request failed', errorCode(err));
  };
}

/** Refuses HEAD with 404-01. Hono would run the GET operation and drop the response's body. */
const noHead: HttpMiddleware = async (c, next) => {
  if (c.req.raw.method === 'HEAD') return fail(c, '404-01');
  return await next();
};
