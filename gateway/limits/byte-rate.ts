import type { BodyRate } from '../../shared/http/json-body/body-charge.ts';
import type { ByteRate } from '../../shared/http/json-body/read-body.ts';
import {
  type Bucket,
  type Buckets,
  giveBack,
  takeFromAll,
  tokensLeft,
} from '../../shared/http/rates/buckets.ts';
import { bucketState } from '../../shared/http/rates/limits.ts';
import type { RatePolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import type { Policies } from './policies.ts';

export interface ByteRateDeps {
  readonly policiesOf: (key: ApiKey) => Policies;
  readonly buckets: Buckets<RatePolicy>;
}

/**
 * Returns a rate limit for the bytes of a tenant's request bodies. Bytes are counted while a body
 * is read and unpacked, whether the request is accepted or not. The cost of a body depends on its
 * unpacked size, and gzip makes a large body cheap to send.
 */
export function createByteRate({ policiesOf, buckets }: ByteRateDeps): ByteRate {
  const known = new WeakMap<ApiKey, BodyRate>();
  return (key) => {
    const policy = policiesOf(key).bytes;
    if (!policy) return undefined;
    let rate = known.get(key);
    if (!rate) {
      const name = `bytes ${key.tenantId}`;
      rate = createBodyRate(() => buckets.get(name, policy));
      known.set(key, rate);
    }
    return rate;
  };
}

function createBodyRate(bucket: () => Bucket<RatePolicy>): BodyRate {
  return {
    holds: (bytes) => tokensLeft(bucket()) >= bytes,
    take: (bytes, debtMax) => takeFromAll([bucket()], bytes, debtMax) === undefined,
    giveBack: (bytes) => giveBack(bucket(), bytes),
    state(neededBytes) {
      const state = bucketState(bucket(), neededBytes);
      if (neededBytes === undefined) return state;
      return { ...state, resetSeconds: Math.max(1, state.resetSeconds) };
    },
  };
}
