import type { Rate } from './buckets.ts';

/** A limit of a caller, with the name that responses report. */
export interface Policy {
  readonly name: 'requests' | 'key-requests' | 'bytes' | 'records' | 'quota' | 'dead-letters';
  /** The limit's entry in the RateLimit-Policy field. */
  readonly item: string;
  /** The detail of the 429-01 to a request over the limit. Understandable without the name. */
  readonly refusal: string;
}

export type RatePolicy = Policy & Rate;

/** Requests per second of one operation, unless the tenant has its own rate. */
export const REQUESTS_PER_SECOND = 1000;
/** A burst is this many seconds of the rate. */
export const BURST_SECONDS = 2;

/** Returns this process's share of the request rate of a tenant, or of one key. */
export function requestPolicy(
  name: 'requests' | 'key-requests',
  perSecond: number,
  processes: number,
): RatePolicy {
  const share = shareOf(perSecond, processes, 1);
  const whose = name === 'requests' ? '' : ' with this key';
  return {
    name,
    ...share,
    item: `"${name}";q=${share.burst};w=${windowOf(share)}`,
    refusal: `requests of one operation are limited to ${perSecond} per second${whose}`,
  };
}

/**
 * Returns the share of one process among `processes`. The burst of the share is at least
 * `burstMin`.
 */
export function shareOf(perSecond: number, processes: number, burstMin: number): Rate {
  const share = perSecond / processes;
  return { perSecond: share, burst: Math.max(burstMin, Math.floor(share * BURST_SECONDS)) };
}

/** Returns the seconds in which an empty bucket refills. */
export function windowOf({ perSecond, burst }: Rate): number {
  return Math.ceil(burst / perSecond);
}
