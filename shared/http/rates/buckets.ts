import type { Clock } from '../../clock.ts';

/** How fast a bucket fills, and how much it holds. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

export interface Bucket<R extends Rate> {
  readonly rate: R;
  tokens: number;
  /** When `tokens` was right. */
  atMs: number;
}

export interface Buckets<R extends Rate> {
  /** The bucket of that name as it is now; full where it is new. Its rate may be another than before. */
  get(name: string, rate: R): Bucket<R>;
  size(): number;
}

/** Fractions of tokens add up with an error; nobody waits for so little. */
const EPSILON = 1e-6;
/** Buckets from which on those that are full are looked for. */
const SWEEP_FROM = 1000;

/**
 * Token buckets by name. A full bucket is the same as none, so those are forgotten whenever the buckets have doubled:
 * the memory follows the callers of the last seconds, and the work for it is a constant for each new bucket.
 */
export function createBuckets<R extends Rate>(clock: Clock, sweepFrom = SWEEP_FROM): Buckets<R> {
  const buckets = new Map<string, Bucket<R>>();
  let sweepAt = sweepFrom;

  function sweep(nowMs: number): void {
    for (const [name, bucket] of buckets) {
      if (refilled(bucket, bucket.rate, nowMs).tokens >= bucket.rate.burst) buckets.delete(name);
    }
    sweepAt = Math.max(sweepFrom, 2 * buckets.size);
  }

  return {
    get(name, rate) {
      const nowMs = clock.nowMs();
      const before = buckets.get(name);
      if (!before && buckets.size >= sweepAt) sweep(nowMs);
      const bucket = before ? refilled(before, rate, nowMs) : { rate, tokens: rate.burst, atMs: nowMs };
      buckets.set(name, bucket);
      return bucket;
    },
    size: () => buckets.size,
  };
}

function refilled<R extends Rate>({ tokens, atMs }: Bucket<R>, rate: R, nowMs: number): Bucket<R> {
  // A clock that was set back must not stop the filling until it has caught up.
  const elapsedMs = Math.max(0, nowMs - atMs);
  return { rate, tokens: Math.min(rate.burst, tokens + (elapsedMs * rate.perSecond) / 1000), atMs: nowMs };
}

/**
 * Takes from all buckets or, where one of them holds too little, from none: then it is the one to wait longest for.
 * `debtMax` is how far below zero they may be afterwards.
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

/** Puts back what was taken and not used. */
export function giveBack(bucket: Bucket<Rate>, tokens: number): void {
  bucket.tokens = Math.min(bucket.rate.burst, bucket.tokens + tokens);
}

/** Whole tokens; 0 while they are below zero. */
export function tokensLeft({ tokens }: Bucket<Rate>): number {
  return Math.max(0, Math.floor(tokens + EPSILON));
}

/** Whole seconds until the bucket holds that much; 0 when it does. */
export function secondsUntil({ tokens, rate }: Bucket<Rate>, level: number): number {
  return Math.max(0, Math.ceil((level - tokens - EPSILON) / rate.perSecond));
}
