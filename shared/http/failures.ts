import type { ErrorHandler, NotFoundHandler } from 'hono';
import { ERRORS, type ErrorCode, type ErrorDetail, errorEnvelope } from '../contracts/errors.ts';
import { errorCode } from '../errors.ts';
import type { HttpContext, HttpEnv } from './env.ts';

/** Seconds after which a caller that got 503-01 should try again. */
export const RETRY_AFTER_SECONDS = 1;

/** AppError code of a body whose sender went away. Nobody reads the answer. */
export const REQUEST_ABORTED = 'REQUEST_ABORTED';

/** The error envelope as an answer; 503-01 carries Retry-After. */
export function fail(c: HttpContext, code: ErrorCode, details?: readonly ErrorDetail[]): Response {
  if (code === '503-01') c.header('retry-after', String(RETRY_AFTER_SECONDS));
  return c.json(errorEnvelope(c.get('requestId'), code, details), ERRORS[code].status);
}

/** The one place where what was thrown becomes an answer: 500-01, of which the access log tells the cause. */
export const onError: ErrorHandler<HttpEnv> = (error, c) => {
  if (errorCode(error) === REQUEST_ABORTED) return fail(c, '400-01');
  c.set('cause', error);
  return fail(c, '500-01');
};

export const onNotFound: NotFoundHandler<HttpEnv> = (c) => fail(c, '404-01');
