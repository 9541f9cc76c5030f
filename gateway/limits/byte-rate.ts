import type { HttpContext } from '../../shared/http/env.ts';
import type { ByteRate } from '../../shared/http/json-body/read-body.ts';
import { tellLimit, tooMany } from '../../shared/http/rates/answers.ts';
import {
  type Buckets,
  giveBack,
  secondsUntil,
  takeFromAll,
  tokensLeft,
} from '../../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/find-api-keys.ts';
import type { Policies } from './policies.ts';

export interface ByteRateDeps {
  readonly policiesOf: (key: ApiKey) => Policies;
  readonly buckets: Buckets<RatePolicy>;
}

/**
 * Counts the bytes of a tenant's bodies while they are read and unpacked, whatever becomes of the request: what a body
 * costs to judge follows its unpacked size, and gzip makes that size free to send.
 */
export function createByteRate({ policiesOf, buckets }: ByteRateDeps): ByteRate {
  return (c: HttpContext) => {
    const key = c.get('apiKey');
    const policy = policiesOf(key).bytes;
    if (!policy) return undefined;
    const bucket = () => buckets.get(`bytes ${key.tenantId}`, policy);
    return {
      holds: (bytes) => tokensLeft(bucket()) >= bytes,
      take: (bytes, debtMax) => takeFromAll([bucket()], bytes, debtMax) === undefined,
      giveBack: (bytes) => giveBack(bucket(), bytes),
      tell() {
        const now = bucket();
        tellLimit(c, policy, tokensLeft(now), secondsUntil(now, policy.burst));
      },
      refuse(bytes) {
        const now = bucket();
        const seconds = Math.max(1, secondsUntil(now, bytes));
        tellLimit(c, policy, tokensLeft(now), seconds);
        return tooMany(c, policy, seconds);
      },
    };
  };
}
