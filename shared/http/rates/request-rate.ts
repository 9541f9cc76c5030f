import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import type { Check } from '../env.ts';
import { refuse } from '../failures.ts';
import { type Buckets, takeFromAll } from './buckets.ts';
import { bucketState, overLimit, reportLimits } from './limits.ts';
import type { RatePolicy } from './policy.ts';

export interface RequestRates {
  readonly policiesOf: (key: ApiKey) => { readonly requests: readonly RatePolicy[] };
  readonly buckets: Buckets<RatePolicy>;
}

/**
 * Counts a request of an operation. Refuses the request with 429-01 if it exceeds the rate of its
 * key, or that of the tenant for all its keys. Runs after the scope check and before the body is
 * read.
 */
export function requestRate({ policiesOf, buckets }: RequestRates, operation: string): Check {
  return (c) => {
    const key = c.get('apiKey');
    const { requests } = policiesOf(key);
    if (requests.length === 0) return undefined;
    const taken = requests.map((policy) => {
      const owner = policy.name === 'requests' ? key.tenantId : key.apiKeyId;
      return buckets.get(`${policy.name} ${owner} ${operation}`, policy);
    });
    const short = takeFromAll(taken, 1);
    reportLimits(
      c,
      taken.map((bucket) => bucketState(bucket, bucket === short ? 1 : undefined)),
    );
    return short ? refuse(c, overLimit(bucketState(short, 1))) : undefined;
  };
}
