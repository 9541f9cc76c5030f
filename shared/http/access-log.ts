import type { Clock } from '../clock.ts';
import { errorCode } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { createRateLimitedLog } from '../rate-limited-log.ts';
import type { HttpMiddleware } from './env.ts';
import { withoutOwnSecret } from './key-headers.ts';

/**
 * One line a request: debug, 503 as a warning, other failures of ours as errors, both with their cause. Warnings and errors,
 * which callers without a key can cause too, are limited to one line per second and kind. The path is logged without the
 * query and without the request's own secret; headers and bodies never are.
 */
export function accessLog(logger: Logger, clock: Clock): HttpMiddleware {
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
