import {
  type Policy,
  type RatePolicy,
  REQUESTS_PER_SECOND,
  requestPolicy,
  shareOf,
  windowOf,
} from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import { ITEMS_BODY_BYTES_MAX } from './body-bytes.ts';

export interface QuotaPolicy extends Policy {
  /** Records of a day. */
  readonly recordsMax: number;
}

/** All that limits a key. */
export interface Policies {
  readonly requests: readonly RatePolicy[];
  /** On bytes of bodies, after unpacking. */
  readonly bytes: RatePolicy | undefined;
  readonly records: RatePolicy | undefined;
  readonly quota: QuotaPolicy | undefined;
}

/** So many records a second for each request a second. */
export const RECORDS_PER_REQUEST = 20;
/** Records of the largest request: it must fit into any gateway's share, or nobody could ever send it. */
const REQUEST_RECORDS_MAX = 1000;
/** Bytes of bodies per second, unless the tenant has a rate of its own. */
export const BYTES_PER_SECOND = 20 * 1024 * 1024;
const DAY_SECONDS = 86_400;

/** Tells what limits a key, of which each of `gateways` takes its share of the rates; reckoned once for each key read. */
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
  const share = shareOf(perSecond, gateways, ITEMS_BODY_BYTES_MAX);
  return {
    name: 'bytes',
    ...share,
    item: `"bytes";q=${share.burst};w=${windowOf(share)};qu="content-bytes"`,
    refusal: `of bodies, as unpacked, are at most ${perSecond} a second`,
  };
}

function recordPolicy(perSecond: number, gateways: number): RatePolicy {
  const share = shareOf(perSecond, gateways, REQUEST_RECORDS_MAX);
  return {
    name: 'records',
    ...share,
    item: `"records";q=${share.burst};w=${windowOf(share)};qu="records"`,
    refusal: `are at most ${perSecond} a second`,
  };
}

function quotaPolicy(recordsMax: number): QuotaPolicy {
  return {
    name: 'quota',
    recordsMax,
    item: `"quota";q=${recordsMax};w=${DAY_SECONDS};qu="records"`,
    refusal: `is ${recordsMax} records a day (UTC)`,
  };
}
