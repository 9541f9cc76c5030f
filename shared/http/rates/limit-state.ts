import type { Refusal } from '../../contracts/errors.ts';
import type { HttpContext } from '../env.ts';
import { type Bucket, secondsUntil, tokensLeft } from './buckets.ts';
import type { Policy, RatePolicy } from './policy.ts';

/** A limit of a caller as it is after a request. */
export interface LimitState {
  readonly policy: Policy;
  /** What is left, in the limit's unit. */
  readonly remaining: number;
  /** Seconds until all of it is available again; for a refused request, until there is enough for it. */
  readonly resetSeconds: number;
}

/** The state of a rate's bucket; `level`: the tokens that a refused request needs. */
export function bucketState(bucket: Bucket<RatePolicy>, level = bucket.rate.burst): LimitState {
  return {
    policy: bucket.rate,
    remaining: tokensLeft(bucket),
    resetSeconds: secondsUntil(bucket, level),
  };
}

/** The refusal of a request over a limit, with 429-01; `more` goes behind the limit's own text. */
export function overLimit({ policy, resetSeconds }: LimitState, more = ''): Refusal {
  const details = [{ path: policy.name, message: policy.refusal + more }];
  return { code: '429-01', details, retryAfterSeconds: resetSeconds };
}

/**
 * Adds limits to the answer's fields `RateLimit-Policy` and `RateLimit`, whatever the answer will be
 * (draft-ietf-httpapi-ratelimit-headers-11). Each call adds items to their lists.
 */
export function reportLimits(c: HttpContext, limits: readonly LimitState[]): void {
  for (const { policy, remaining, resetSeconds } of limits) {
    c.header('ratelimit-policy', policy.item, { append: true });
    c.header('ratelimit', `"${policy.name}";r=${remaining};t=${resetSeconds}`, { append: true });
  }
}
