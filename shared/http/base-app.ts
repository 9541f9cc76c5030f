import { Hono } from 'hono';
import type { Refusal } from '../contracts/errors.ts';
import type { IdGenerator } from '../ids.ts';
import type { Logger } from '../logging.ts';
import { createAccessLog } from './access-log.ts';
import { setHeader } from './answers.ts';
import type { Handler, HttpContext, HttpEnv, PublicRoute } from './env.ts';
import { fail, onError, onNotFound } from './failures.ts';
import { REQUEST_ID_HEADER, setUncached, withoutOwnSecret } from './headers.ts';
import { type Health, healthRoutes } from './health.ts';
import { type CollectMetrics, metricsRoute } from './metrics-route.ts';
import { type ListenerName, RequestMetrics, UNKNOWN_OPERATION } from './request-metrics.ts';
import { endRequestSpan, startRequestSpan } from './request-span.ts';

export interface BaseAppOptions {
  /** The listener's name in metrics. */
  readonly listener: ListenerName;
  /** The described operations by method and path, whose names metrics use. */
  readonly operations: Readonly<Record<string, NamedOperation>>;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  readonly publicRoutes: readonly PublicRoute[];
  /** Called before each operation, to set headers of its answer. */
  readonly setHeaders?: (c: HttpContext) => void;
}

/** The description of an operation, as far as metrics use it. */
interface NamedOperation {
  readonly operationId: string;
  /** The answers by status, except errors. */
  readonly answers: Readonly<Record<number, unknown>>;
}

export type OnRefused = (c: HttpContext, refusal: Refusal) => void;

export interface BaseApp {
  readonly app: Hono<HttpEnv>;
  /** Adds an operation. `onRefused` is called when a request was refused. */
  readonly on: (
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'OPTIONS',
    path: string,
    handle: Handler,
    onRefused?: OnRefused,
  ) => void;
}

/** An operation, as metrics, traces and the access log name it. */
interface ServedOperation {
  readonly name: string;
  /** The path with its parameters; undefined if it does not exist. */
  readonly route: string | undefined;
  readonly metrics: RequestMetrics;
}

/** The name of the OPTIONS requests of browsers, the only routes that no document describes. */
const PREFLIGHT = 'preflight';

/**
 * Returns an app with the features that all listeners with operations share. These are request ids,
 * errors, the public routes, no caching, the access log, and no HEAD. Each route has one handler:
 * Hono runs several only as a chain of middleware, which costs more than the checks themselves.
 */
export function createBaseApp(options: BaseAppOptions): BaseApp {
  const { listener, operations, nextId, logger, publicRoutes, setHeaders } = options;
  const log = createAccessLog({ listener, logger });
  const served =
    ({ name, route, metrics }: ServedOperation, handle: Handler, onRefused?: OnRefused): Handler =>
    async (c) => {
      const beganMs = performance.now();
      setRequestId(c, nextId);
      setUncached(c);
      setHeaders?.(c);
      const span = startRequestSpan(c, route);
      let response: Response;
      try {
        // Hono would run the operation of GET and drop the response's body.
        response = await (c.req.raw.method === 'HEAD' ? fail(c, '404-01') : handle(c));
      } catch (error) {
        response = onError(error, c);
      }
      const { status } = response;
      const durationMs = performance.now() - beganMs;
      log(c, name, status, durationMs);
      const refusal = status >= 400 ? c.get('refusal') : undefined;
      metrics.answered(status, refusal?.code, durationMs);
      if (span) endRequestSpan(span, c, { route, status });
      if (refusal && onRefused) onRefused(c, refusal);
      return response;
    };
  const unknown = {
    name: UNKNOWN_OPERATION,
    route: undefined,
    metrics: new RequestMetrics(listener, UNKNOWN_OPERATION),
  };
  const app = createPublicApp(publicRoutes, nextId, served(unknown, onNotFound));
  return {
    app,
    on: (method, path, handle, onRefused) => {
      const { operationId: name = PREFLIGHT, answers = {} } = operations[`${method} ${path}`] ?? {};
      const metrics = new RequestMetrics(listener, name, Object.keys(answers).map(Number));
      app.on(method, path, served({ name, route: path, metrics }, handle, onRefused));
    },
  };
}

/**
 * Returns an app with the health checks and the metrics only; any other request gets 404-01. By
 * default, `collect` resolves with the metrics of this process.
 */
export function createHealthApp(
  health: Health,
  nextId: IdGenerator,
  collect?: CollectMetrics,
): Hono<HttpEnv> {
  return createPublicApp([...healthRoutes(health), metricsRoute(collect)], nextId, (c) => {
    setRequestId(c, nextId);
    setUncached(c);
    return onNotFound(c);
  });
}

function createPublicApp(routes: readonly PublicRoute[], nextId: IdGenerator, notFound: Handler) {
  const app = new Hono<HttpEnv>();
  app.onError(onError);
  app.notFound(notFound);
  for (const { path, handle } of routes) {
    app.get(path, (c) => {
      c.header(REQUEST_ID_HEADER, setRequestId(c, nextId));
      return handle(c);
    });
  }
  return app;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** Sets the request id, which the answer repeats: the caller's id if it is valid, else a new one. */
function setRequestId(c: HttpContext, nextId: IdGenerator): string {
  // An id that contains the request's secret is not valid, because request ids are logged, stored
  // and returned.
  const header = c.req.header(REQUEST_ID_HEADER);
  const given = header === undefined ? '' : withoutOwnSecret(c, header);
  const id = REQUEST_ID.test(given) ? given : nextId();
  c.set('requestId', id);
  setHeader(c, REQUEST_ID_HEADER, id);
  return id;
}
