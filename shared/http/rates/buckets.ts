import type { Clock } from '../../clock.ts';

/** The rate at which a bucket fills, and its maximum number of tokens. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

export interface Bucket<R extends Rate> {
  rate: R;
  tokens: number;
  /** The time at which `tokens` was calculated. */
  atMs: number;
}

export interface Buckets<R extends Rate> {
  /**
   * Returns the current bucket of that name; a full bucket if the name is new. The bucket's rate
   * may have changed.
   */
  get(name: string, rate: R): Bucket<R>;
  size(): number;
}

/** Tolerance for the rounding errors of fractions of tokens. */
const EPSILON = 1e-6;
/** The number of buckets from which full ones are removed. */
const SWEEP_FROM = 1000;

/**
 * Returns token buckets by name. A full bucket equals a new one, so full ones are removed whenever
 * the number of buckets has doubled. Memory is bounded by the callers of the last seconds, at
 * constant amortized cost per new bucket.
 */
export function createBuckets<R extends Rate>(clock: Clock, sweepFrom = SWEEP_FROM): Buckets<R> {
  const buckets = new Map<string, Bucket<R>>();
  let sweepAt = sweepFrom;

  function sweep(nowMs: number): void {
    for (const [name, bucket] of buckets) {
      if (tokensAt(bucket, bucket.rate, nowMs) >= bucket.rate.burst) buckets.delete(name);
    }
    sweepAt = Math.max(sweepFrom, 2 * buckets.size);
  }

  return {
    get(name, rate) {
      const nowMs = clock.nowMs();
      let bucket = buckets.get(name);
      if (bucket) {
        bucket.tokens = tokensAt(bucket, rate, nowMs);
        bucket.rate = rate;
        bucket.atMs = nowMs;
      } else {
        if (buckets.size >= sweepAt) sweep(nowMs);
        bucket = { rate, tokens: rate.burst, atMs: nowMs };
        buckets.set(name, bucket);
      }
      return bucket;
    },
    size: () => buckets.size,
  };
}

function tokensAt({ tokens, atMs }: Bucket<Rate>, rate: Rate, nowMs: number): number {
  // If the clock was set back, the bucket must continue to fill.
  const elapsedMs = Math.max(0, nowMs - atMs);
  return Math.min(rate.burst, tokens + (elapsedMs * rate.perSecond) / 1000);
}

/**
 * Takes tokens from all buckets, or from none if one of them holds too few. In that case, returns
 * the bucket that takes longest to refill to the required level. `debtMax`: how far below zero the
 * buckets may be afterwards.
 */
export function takeFromAll<R extends Rate>(
  buckets: readonly Bucket<R>[],
  cost: number,
  debtMax = 0,
): Bucket<R> | undefined {
  let shortest: Bucket<R> | undefined;
  for (const bucket of buckets) {
    if (bucket.tokens + debtMax + EPSILON >= cost) continue;
    if (!shortest || secondsUntil(bucket, cost) > secondsUntil(shortest, cost)) shortest = bucket;
  }
  if (!shortest) for (const bucket of buckets) bucket.tokens -= cost;
  return shortest;
}

/** Returns unused tokens to a bucket. */
export function giveBack(bucket: Bucket<Rate>, tokens: number): void {
  bucket.tokens = Math.min(bucket.rate.burst, bucket.tokens + tokens);
}

/** Returns the number of whole tokens; 0 if it is negative. */
export function tokensLeft({ tokens }: Bucket<Rate>): number {
  return Math.max(0, Math.floor(tokens + EPSILON));
}

/** Returns the whole seconds until the bucket holds `level` tokens; 0 if it already does. */
export function secondsUntil({ tokens, rate }: Bucket<Rate>, level: number): number {
  return Math.max(0, Math.ceil((level - tokens - EPSILON) / rate.perSecond));
}
