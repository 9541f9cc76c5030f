import type { HttpContext } from '../../shared/http/env.ts';
import { tellLimit, tooMany } from '../../shared/http/rates/answers.ts';
import { type Buckets, secondsUntil, takeFromAll, tokensLeft } from '../../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/find-api-keys.ts';
import type { Accept, AcceptOptions, Outcome } from '../accept/accept.ts';
import type { EncodedRecord } from '../publish/publish.ts';
import { type OpenDeadLetters, RETRY_AFTER_SECONDS } from './open-dead-letters.ts';
import type { Policies } from './policies.ts';
import type { Quotas } from './quotas.ts';

/** As {@link Accept}, of the caller of a request; or the answer to the request, where its records are over a limit. */
export type AcceptWithin = (
  c: HttpContext,
  records: readonly EncodedRecord[],
  options: AcceptOptions,
) => Promise<Outcome[] | Response>;

export interface AcceptWithinDeps {
  readonly policiesOf: (key: ApiKey) => Policies;
  readonly buckets: Buckets<RatePolicy>;
  readonly accept: Accept;
  readonly quotas: Quotas;
  readonly openDeadLetters: OpenDeadLetters;
}

/**
 * Accepts the records of a request, all of which are valid, within the tenant's record rate, daily quota and bytes of open
 * dead letters: 429-01 refuses them all. Only what was accepted counts for the day; the rate counts what was asked for.
 */
export function createAcceptWithin(deps: AcceptWithinDeps): AcceptWithin {
  const { accept, policiesOf, buckets, quotas, openDeadLetters } = deps;
  return async (c, records, options) => {
    const key = c.get('apiKey');
    const { records: rate, quota } = policiesOf(key);
    const count = records.length;
    if (count > 0 && openDeadLetters.isOver(key.tenantId)) {
      tellLimit(c, openDeadLetters.policy, 0, RETRY_AFTER_SECONDS);
      return tooMany(c, openDeadLetters.policy, RETRY_AFTER_SECONDS);
    }
    if (count === 0 || (!rate && !quota)) return await accept(records, options);
    const day = quota && quotas.today(key.tenantId);
    const overQuota = quota && day && day.used() + count > quota.recordsMax;
    const bucket = rate && buckets.get(`records ${key.tenantId}`, rate);
    const short = bucket && !overQuota ? takeFromAll([bucket], count) : undefined;
    const hold = day && !overQuota && !short ? day.hold(count) : undefined;
    if (bucket) {
      const resetSeconds = secondsUntil(bucket, short ? count : bucket.rate.burst);
      tellLimit(c, bucket.rate, tokensLeft(bucket), resetSeconds);
    }
    if (quota && day) tellLimit(c, quota, Math.max(0, quota.recordsMax - day.used()), day.secondsLeft());
    if (quota && day && overQuota) {
      const left = Math.max(0, quota.recordsMax - day.used());
      return tooMany(c, quota, day.secondsLeft(), `; ${left} are left, and this request has ${count}`);
    }
    if (short) return tooMany(c, short.rate, secondsUntil(short, count));
    let accepted = 0;
    try {
      const outcomes = await accept(records, options);
      accepted = outcomes.filter((outcome) => outcome === 'accepted').length;
      return outcomes;
    } finally {
      hold?.settle(accepted);
    }
  };
}
