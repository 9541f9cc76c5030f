import { CLAIMED_BEFORE_MS } from '../../shared/postgres/webhook-endpoints.ts';

/**
 * The rate of an endpoint over all dispatchers: a claim takes times at which attempts may begin,
 * evenly spaced, under the lock of the endpoint's row. A delivery waits for its time in the memory
 * of the dispatcher that claimed it.
 */

/**
 * A stored time that is later than this was written by a dispatcher whose clock was ahead, or before
 * the clock was set back, and is ignored.
 */
const AHEAD_MAX_MS = 60_000;

export interface EndpointRate {
  /** Attempts per second. */
  readonly perSecond: number;
  /** When the next attempt may begin; null: now. */
  readonly nextSendAtMs: number | null;
}

/** Times at which the next attempts may begin. */
export interface SendTimes {
  /** The number of attempts that may be claimed now. */
  readonly count: number;
  /** Returns the time of an attempt, from 0. */
  at(index: number): number;
  /** Returns when the next attempt may begin after so many. */
  after(claimed: number): number;
  /** Returns from when to claim again after so many; undefined: now. */
  waitUntilMs(claimed: number): number | undefined;
}

/**
 * Returns the times of the next attempts. Those of claimed deliveries that are given back unsent are
 * used again, if no later times were taken since.
 */
export function sendTimes(rate: EndpointRate, unsentMs: readonly number[], nowMs: number): SendTimes {
  const intervalMs = 1000 / rate.perSecond;
  const startMs = Math.max(nowMs, firstFreeMs(rate, unsentMs, intervalMs, nowMs));
  const at = (index: number) => Math.ceil(startMs + index * intervalMs);
  const count = Math.max(0, Math.floor((nowMs + CLAIMED_BEFORE_MS - startMs) / intervalMs) + 1);
  return {
    count,
    at,
    after: at,
    // Half of the time is left for the claim.
    waitUntilMs: (claimed) => (claimed < count ? undefined : at(claimed) - CLAIMED_BEFORE_MS / 2),
  };
}

function firstFreeMs(
  { nextSendAtMs }: EndpointRate,
  unsentMs: readonly number[],
  intervalMs: number,
  nowMs: number,
): number {
  if (nextSendAtMs === null || nextSendAtMs > nowMs + AHEAD_MAX_MS) return nowMs;
  const isLast = unsentMs.length > 0 && nextSendAtMs - Math.max(...unsentMs) <= Math.ceil(intervalMs);
  return isLast ? Math.min(...unsentMs) : nextSendAtMs;
}
