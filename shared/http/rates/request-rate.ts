import type { ApiKey } from '../../postgres/find-api-keys.ts';
import type { HttpMiddleware } from '../env.ts';
import { tellLimit, tooMany } from './answers.ts';
import { type Buckets, secondsUntil, takeFromAll, tokensLeft } from './buckets.ts';
import type { RatePolicy } from './policy.ts';

export interface RateDeps {
  readonly policiesOf: (key: ApiKey) => { readonly requests: readonly RatePolicy[] };
  readonly buckets: Buckets<RatePolicy>;
}

/**
 * Counts a request of an operation, and answers 429-01 to one too many: of the tenant, whichever of its keys are used,
 * and of the key where that has a rate of its own. Stands behind the scope check, before anything is read of the body.
 */
export function requestRate({ policiesOf, buckets }: RateDeps, operation: string): HttpMiddleware {
  return async (c, next) => {
    const key = c.get('apiKey');
    const { requests } = policiesOf(key);
    if (requests.length === 0) return await next();
    const taken = requests.map((policy) => {
      const owner = policy.name === 'requests' ? key.tenantId : key.apiKeyId;
      return buckets.get(`${policy.name} ${owner} ${operation}`, policy);
    });
    const short = takeFromAll(taken, 1);
    for (const bucket of taken) {
      const { rate } = bucket;
      const resetSeconds = secondsUntil(bucket, bucket === short ? 1 : rate.burst);
      tellLimit(c, rate, tokensLeft(bucket), resetSeconds);
    }
    return short ? tooMany(c, short.rate, secondsUntil(short, 1)) : await next();
  };
}
