import type { Refusal } from '../../contracts/errors.ts';
import { appendHeader } from '../answers.ts';
import type { HttpContext } from '../env.ts';
import { type Bucket, secondsUntil, tokensLeft } from './buckets.ts';
import type { Policy, RatePolicy } from './policy.ts';

/** A limit of a caller, with its state after a request. */
export interface LimitState {
  readonly policy: Policy;
  /** How much is left, in the limit's unit. */
  readonly remaining: number;
  /**
   * Seconds until the limit is unused again; for a refused request, until enough is available for
   * that request.
   */
  readonly resetSeconds: number;
}

/** Returns the state of a rate's bucket. `level`: the tokens that a refused request needs. */
export function bucketState(bucket: Bucket<RatePolicy>, level = bucket.rate.burst): LimitState {
  return {
    policy: bucket.rate,
    remaining: tokensLeft(bucket),
    resetSeconds: secondsUntil(bucket, level),
  };
}

/** Returns the 429-01 of a request over a limit. `more` is appended to the text of the limit. */
export function overLimit({ policy, resetSeconds }: LimitState, more = ''): Refusal {
  const details = [{ path: policy.name, message: policy.refusal + more }];
  return { code: '429-01', details, retryAfterSeconds: resetSeconds };
}

/**
 * Adds limits to the fields `RateLimit-Policy` and `RateLimit` of a response with any status
 * (draft-ietf-httpapi-ratelimit-headers-11). Each call appends to the lists in these fields.
 */
export function reportLimits(c: HttpContext, limits: readonly LimitState[]): void {
  for (const { policy, remaining, resetSeconds } of limits) {
    appendHeader(c, 'ratelimit-policy', policy.item);
    appendHeader(c, 'ratelimit', `"${policy.name}";r=${remaining};t=${resetSeconds}`);
  }
}
