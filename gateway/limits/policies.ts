import {
  type Policy,
  type RatePolicy,
  REQUESTS_PER_SECOND,
  requestPolicy,
  shareOf,
  windowOf,
} from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';

export interface QuotaPolicy extends Policy {
  /** Maximum records per day. */
  readonly recordsMax: number;
}

/** The limits of an API key. */
export interface Policies {
  readonly requests: readonly RatePolicy[];
  /** Rate of bytes of request bodies, after gunzip. */
  readonly bytes: RatePolicy | undefined;
  readonly records: RatePolicy | undefined;
  readonly quota: QuotaPolicy | undefined;
}

/** Maximum bytes of a request's body, as sent and after gunzip. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** Maximum bytes of a batch request's body, as sent and after gunzip. */
export const BATCH_BODY_BYTES_MAX = 4 * 1024 * 1024;
export const CREDENTIALS_BODY_BYTES_MAX = 64 * 1024;

/** The record rate, as a multiple of the request rate. */
export const RECORDS_PER_REQUEST = 20;
/** Records of the largest request, which the share of each gateway must allow. */
const REQUEST_RECORDS_MAX = 1000;
/** Bytes of bodies per second, unless the tenant has its own rate. */
export const BYTES_PER_SECOND = 20 * 1024 * 1024;
const DAY_SECONDS = 86_400;

/**
 * Returns a function that returns an API key's limits for one gateway: rates are divided by
 * `gateways`. The limits are computed once per key object.
 */
export function createPolicies(gateways: number): (key: ApiKey) => Policies {
  const known = new WeakMap<ApiKey, Policies>();
  return (key) => {
    let policies = known.get(key);
    if (!policies) {
      policies = policiesOf(key, gateways);
      known.set(key, policies);
    }
    return policies;
  };
}

function policiesOf(
  { limits: { tenantRate, keyRate, byteRate, dailyQuota } }: ApiKey,
  gateways: number,
): Policies {
  const perSecond = tenantRate === 'default' ? REQUESTS_PER_SECOND : tenantRate;
  const bytesPerSecond = byteRate === 'default' ? BYTES_PER_SECOND : byteRate;
  const requests: RatePolicy[] = [];
  if (perSecond !== 'none') requests.push(requestPolicy('requests', perSecond, gateways));
  if (keyRate !== undefined) requests.push(requestPolicy('key-requests', keyRate, gateways));
  return {
    requests,
    bytes: bytesPerSecond === 'none' ? undefined : bytePolicy(bytesPerSecond, gateways),
    records: perSecond === 'none' ? undefined : recordPolicy(perSecond * RECORDS_PER_REQUEST, gateways),
    quota: dailyQuota === undefined ? undefined : quotaPolicy(dailyQuota),
  };
}

function bytePolicy(perSecond: number, gateways: number): RatePolicy {
  const share = shareOf(perSecond, gateways, BATCH_BODY_BYTES_MAX);
  return {
    name: 'bytes',
    ...share,
    item: `"bytes";q=${share.burst};w=${windowOf(share)};qu="content-bytes"`,
    refusal: `bytes of bodies, as unpacked, are limited to ${perSecond} per second`,
  };
}

function recordPolicy(perSecond: number, gateways: number): RatePolicy {
  const share = shareOf(perSecond, gateways, REQUEST_RECORDS_MAX);
  return {
    name: 'records',
    ...share,
    item: `"records";q=${share.burst};w=${windowOf(share)};qu="records"`,
    refusal: `records are limited to ${perSecond} per second`,
  };
}

function quotaPolicy(recordsMax: number): QuotaPolicy {
  return {
    name: 'quota',
    recordsMax,
    item: `"quota";q=${recordsMax};w=${DAY_SECONDS};qu="records"`,
    refusal: `the quota is ${recordsMax} records per day (UTC)`,
  };
}
