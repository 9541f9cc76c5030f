import {
  ERRORS,
  type ErrorCode,
  type ErrorDetail,
  errorEnvelope,
  type Refusal,
} from '../contracts/errors.ts';
import { errorCode } from '../errors.ts';
import { answerJson, setHeader } from './answers.ts';
import type { HttpContext } from './env.ts';

/** Seconds after which a caller should retry a 503-01. */
export const RETRY_AFTER_SECONDS = 1;

/** AppError code of a body whose sender closed the connection. No caller reads the response. */
export const REQUEST_ABORTED = 'REQUEST_ABORTED';

/** Returns the response to a refusal. All refusals become responses here. */
export function refuse(c: HttpContext, refusal: Refusal): Response {
  const { code, details, retryAfterSeconds } = refusal;
  c.set('refusal', refusal);
  const retryAfter = retryAfterSeconds ?? (code === '503-01' ? RETRY_AFTER_SECONDS : undefined);
  if (retryAfter !== undefined) setHeader(c, 'retry-after', String(retryAfter));
  return answerJson(c, errorEnvelope(c.get('requestId'), code, details), ERRORS[code].status);
}

/** Calls {@link refuse} with a code and its details. */
export function fail(c: HttpContext, code: ErrorCode, details?: readonly ErrorDetail[]): Response {
  return refuse(c, { code, details });
}

/** Answers any thrown value with 500-01; the access log reports the cause. */
export function onError(error: unknown, c: HttpContext): Response {
  if (errorCode(error) === REQUEST_ABORTED) return fail(c, '400-01');
  c.set('cause', error);
  return fail(c, '500-01');
}

export function onNotFound(c: HttpContext): Response {
  return fail(c, '404-01');
}
