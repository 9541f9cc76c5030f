import type { Refusal } from '../../contracts/errors.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import type { HttpContext, HttpMiddleware } from '../env.ts';
import { refuse } from '../failures.ts';
import { type Bucket, type Buckets, secondsUntil, takeFromAll, tokensLeft } from './buckets.ts';
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
    c.header('ratelimit-policy', policy.item, { append: true });
    c.header('ratelimit', `"${policy.name}";r=${remaining};t=${resetSeconds}`, { append: true });
  }
}

export interface RequestRates {
  readonly policiesOf: (key: ApiKey) => { readonly requests: readonly RatePolicy[] };
  readonly buckets: Buckets<RatePolicy>;
}

/**
 * Counts a request of an operation. Refuses the request with 429-01 if it exceeds the rate of its
 * key, or that of the tenant for all its keys. Runs after the scope check and before the body is
 * read.
 */
export function requestRate({ policiesOf, buckets }: RequestRates, operation: string): HttpMiddleware {
  return async (c, next) => {
    const key = c.get('apiKey');
    const { requests } = policiesOf(key);
    if (requests.length === 0) return await next();
    const taken = requests.map((policy) => {
      const owner = policy.name === 'requests' ? key.tenantId : key.apiKeyId;
      return buckets.get(`${policy.name} ${owner} ${operation}`, policy);
    });
    const short = takeFromAll(taken, 1);
    reportLimits(
      c,
      taken.map((bucket) => bucketState(bucket, bucket === short ? 1 : undefined)),
    );
    return short ? refuse(c, overLimit(bucketState(short, 1))) : await next();
  };
}
