import { validTraceparent } from '../contracts/traceparent.ts';
import type { Span } from '../tracing/span.ts';
import { tracer } from '../tracing/tracer.ts';
import type { HttpContext } from './env.ts';
import { withoutOwnSecret } from './headers.ts';

/**
 * Starts the span of a request, which continues the caller's trace. Returns undefined if no traces
 * are exported, or this one is not. `route`: the operation's path; undefined for an unknown one.
 */
export function startRequestSpan(c: HttpContext, route: string | undefined): Span | undefined {
  if (!tracer) return undefined;
  const { method } = c.req.raw;
  const name = route === undefined ? method : `${method} ${route}`;
  const span = tracer.startSpan(name, { kind: 'server', parent: callersTraceparent(c) });
  c.set('span', span);
  return span;
}

/** Ends the span of a request. Its path is that of the log line: without the request's own secret. */
export function endRequestSpan(
  span: Span,
  c: HttpContext,
  { route, status }: { readonly route: string | undefined; readonly status: number },
): void {
  span.set({
    'http.request.method': c.req.raw.method,
    'http.route': route,
    'url.path': withoutOwnSecret(c, c.req.path),
    'url.scheme': 'http',
    'http.response.status_code': status,
    'sluice.request.id': c.get('requestId'),
    'sluice.tenant.id': c.get('apiKey')?.tenantId,
  });
  if (status >= 500) span.fail(String(status));
  span.end();
}

/**
 * Returns the traceparent for what the request causes: that of its span, or the caller's if the span
 * is not recorded.
 */
export function requestTraceparent(c: HttpContext): string | undefined {
  return (tracer && c.get('span')?.traceparent) ?? callersTraceparent(c);
}

function callersTraceparent(c: HttpContext): string | undefined {
  return validTraceparent(c.req.header('traceparent'));
}
