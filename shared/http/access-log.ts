import { traceFields } from '../contracts/traceparent.ts';
import { errorCode } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { HotCounter } from '../metrics/hot-metrics.ts';
import { createRateLimitedLog } from '../rate-limited-log.ts';
import type { HttpContext } from './env.ts';
import { withoutOwnSecret } from './headers.ts';
import type { ListenerName } from './request-metrics.ts';
import { requestTraceparent } from './request-span.ts';

const suppressed = new HotCounter({
  name: 'sluice_access_log_suppressed_total',
  help: 'Lines of the access log that were left out, because another line stands for them.',
  labelNames: ['listener'],
});

/** Logs the answer to a request. `operation` is the name of the operation, from a bounded set. */
export type AccessLog = (c: HttpContext, operation: string, status: number, durationMs: number) => void;

export interface AccessLogOptions {
  readonly listener: ListenerName;
  readonly logger: Logger;
}

/**
 * Limits of refusals (4xx) of an operation with one error code: 5 lines immediately, then one every
 * 10 s. Callers without a key can cause about 10 of these kinds at a gateway, and one line of 503 per
 * second, so all of their lines take less than 100 MB per day.
 */
const REFUSALS = { burst: 5, intervalMs: 10_000 };
/** Callers without a key can send paths of 16 KB. At level debug they are logged whole. */
const PATH_LENGTH_MAX = 200;

/**
 * Returns a log of refusals (4xx, at level info), of 503 (warn) and of other server errors (error),
 * the latter two with their cause. These lines are limited by kind, since callers without a key can
 * cause them at any rate. At level debug, it also writes one line per request.
 *
 * The path is logged without the query and without the request's own secret. Headers and bodies are
 * not logged. Ids of API keys are logged only of valid keys, since callers send secrets as ids by
 * mistake.
 */
export function createAccessLog({ listener, logger }: AccessLogOptions): AccessLog {
  const leftOut = suppressed.of({ listener });
  const onLeftOut = (lines: number) => {
    leftOut.value += lines;
  };
  const refusals = createRateLimitedLog(logger, { ...REFUSALS, onLeftOut });
  const failures = createRateLimitedLog(logger, { onLeftOut });
  return (c, operation, status, durationMs) => {
    const isDebug = logger.isLevelEnabled('debug');
    if (!isDebug && (status < 400 || (status < 500 && !logger.isLevelEnabled('info')))) return;
    const key = c.get('apiKey');
    const code = c.get('refusal')?.code;
    const path = withoutOwnSecret(c, c.req.path);
    const fields = {
      requestId: c.get('requestId'),
      ...traceFields(requestTraceparent(c)),
      tenantId: key?.tenantId,
      apiKeyId: key?.apiKeyId,
      operation,
      method: c.req.method,
      path: path.slice(0, PATH_LENGTH_MAX),
      status,
      code,
      bytes: bodyBytes(c),
      durationMs: Math.round(durationMs),
    };
    if (isDebug) logger.debug({ ...fields, path }, 'request');
    if (status < 400) return;
    const kind = `${operation} ${code ?? status}`;
    if (status < 500) return refusals.info(fields, 'request refused', kind);
    const err = c.get('cause');
    // A caller without a key can cause 503 while the keys cannot be looked up: one kind for all operations.
    if (status === 503) failures.warn({ ...fields, err }, 'request refused: unavailable', key && operation);
    else failures.error({ ...fields, err }, 'request failed', `${operation} ${errorCode(err)}`);
  };
}

/** Returns the bytes of the body as the request declares them; undefined if it does not. */
function bodyBytes(c: HttpContext): number | undefined {
  const length = c.req.header('content-length');
  return length === undefined ? undefined : Number(length);
}
