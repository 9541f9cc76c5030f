import type { ByteRate } from '../../shared/http/json-body/read-body.ts';
import { type Buckets, giveBack, takeFromAll, tokensLeft } from '../../shared/http/rates/buckets.ts';
import { bucketState } from '../../shared/http/rates/limits.ts';
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
  return (key) => {
    const policy = policiesOf(key).bytes;
    if (!policy) return undefined;
    const bucket = () => buckets.get(`bytes ${key.tenantId}`, policy);
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
    refusal: `of bodies, as unpacked, are at most ${perSecond} per second`,
  };
}

function recordPolicy(perSecond: number, gateways: number): RatePolicy {
  const share = shareOf(perSecond, gateways, REQUEST_RECORDS_MAX);
  return {
    name: 'records',
    ...share,
    item: `"records";q=${share.burst};w=${windowOf(share)};qu="records"`,
    refusal: `are at most ${perSecond} per second`,
  };
}

function quotaPolicy(recordsMax: number): QuotaPolicy {
  return {
    name: 'quota',
    recordsMax,
    item: `"quota";q=${recordsMax};w=${DAY_SECONDS};qu="records"`,
    refusal: `is ${recordsMax} records per day (UTC)`,
  };
}
