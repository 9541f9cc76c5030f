import type { Refusal } from '../../shared/contracts/errors.ts';
import { type Buckets, takeFromAll } from '../../shared/http/rates/buckets.ts';
import { bucketState, type LimitState, overLimit } from '../../shared/http/rates/limits.ts';
import type { RatePolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import { type Accept, type AcceptOptions, isAccepted, type Outcome } from '../accept/accept.ts';
import type { EncodedRecord } from '../publish/publish.ts';
import { countOutcomes, countRefused } from '../record-metrics.ts';
import { type OpenDeadLetters, RETRY_AFTER_SECONDS } from './open-dead-letters.ts';
import type { Policies, QuotaPolicy } from './policies.ts';
import type { QuotaDay, Quotas } from './quotas.ts';

/** The outcomes of the records, or one refusal of all records, and the limits that were checked. */
export type LimitedOutcomes = { readonly limits: readonly LimitState[] } & (
  | { readonly outcomes: Promise<readonly Outcome[]>; readonly refusal?: undefined }
  | { readonly refusal: Refusal; readonly outcomes?: undefined }
);

/** Accepts records like {@link Accept}, within the limits of an API key. */
export type LimitedAccept = (
  key: ApiKey,
  records: readonly EncodedRecord[],
  options: AcceptOptions,
) => LimitedOutcomes;

export interface LimitedAcceptDeps {
  readonly policiesOf: (key: ApiKey) => Policies;
  readonly buckets: Buckets<RatePolicy>;
  readonly accept: Accept;
  readonly quotas: Quotas;
  readonly openDeadLetters: OpenDeadLetters;
}

/**
 * Returns a function that accepts the valid records of a request within the tenant's limits: record
 * rate, daily quota and bytes of open dead letters. If a limit is exceeded, all records are refused
 * with 429-01. The quota counts accepted records; the rate counts all valid records of the request.
 */
export function createLimitedAccept(deps: LimitedAcceptDeps): LimitedAccept {
  return (key, records, options) => {
    const taken = records.length === 0 ? NO_LIMITS : takeFromLimits(deps, key, records.length);
    const { limits, refusal, hold } = taken;
    if (refusal) {
      countRefused(records[0]!.record.kind, refusal.code, records.length);
      return { limits, refusal };
    }
    return { limits, outcomes: counted(records, deps.accept(records, options), hold) };
  };
}

/** Counts the outcomes, and the accepted records towards the quota. */
async function counted(
  records: readonly EncodedRecord[],
  outcomes: Promise<readonly Outcome[]>,
  hold: Taken['hold'],
): Promise<readonly Outcome[]> {
  let accepted = 0;
  try {
    const all = await outcomes;
    const [first] = records;
    if (first) countOutcomes(first.record.tenantId, first.record.kind, all);
    if (hold) accepted = all.filter(isAccepted).length;
    return all;
  } finally {
    hold?.settle(accepted);
  }
}

/** The decision of the limits on the records of a request. */
interface Taken {
  readonly limits: readonly LimitState[];
  readonly refusal?: Refusal | undefined;
  /** Counts the records as in flight until their outcomes are known. */
  readonly hold?: ReturnType<QuotaDay['hold']> | undefined;
}

const NO_LIMITS: Taken = { limits: [] };

/** Takes `count` records from the rate and the quota. Takes from neither if a limit is exceeded. */
function takeFromLimits(deps: LimitedAcceptDeps, key: ApiKey, count: number): Taken {
  const { policiesOf, buckets, quotas, openDeadLetters } = deps;
  if (openDeadLetters.isOver(key.tenantId)) {
    const { policy } = openDeadLetters;
    const state = { policy, remaining: 0, resetSeconds: RETRY_AFTER_SECONDS };
    return { limits: [state], refusal: overLimit(state) };
  }
  const { records: rate, quota } = policiesOf(key);
  const day = quota && quotas.today(key.tenantId);
  const isOverQuota = quota && day && day.used() + count > quota.recordsMax;
  const bucket = rate && buckets.get(`records ${key.tenantId}`, rate);
  const isShort = bucket && !isOverQuota && takeFromAll([bucket], count) !== undefined;
  const hold = isOverQuota || isShort ? undefined : day?.hold(count);
  const rateState = bucket && bucketState(bucket, isShort ? count : undefined);
  const quotaState = quota && day && stateOfDay(quota, day);
  return {
    limits: [rateState, quotaState].filter((state) => state !== undefined),
    refusal:
      (isOverQuota && quotaState && overQuota(quotaState, count)) ||
      (isShort && rateState && overLimit(rateState)) ||
      undefined,
    hold,
  };
}

function stateOfDay(policy: QuotaPolicy, day: QuotaDay): LimitState {
  const remaining = Math.max(0, policy.recordsMax - day.used());
  return { policy, remaining, resetSeconds: day.secondsLeft() };
}

function overQuota(state: LimitState, count: number): Refusal {
  return overLimit(state, `; ${state.remaining} are left, and this request has ${count}`);
}
