import { countedTime, TIME_MAX_S } from './counts.ts';

/**
 * Histograms of times with buckets that grow by a constant factor, as those of DDSketch (Masson,
 * Rim and Lee, VLDB 2019): every value of a bucket differs from the bucket's estimate by at most
 * 1.93%, so that quantiles do too. Adding histograms loses nothing.
 */

/** Buckets per power of two: their bounds grow by the factor 2^(1/18) = 1.0393. */
const PER_OCTAVE = 18;
/** Shorter times are in the bucket of 0, in seconds. */
const TIME_MIN_S = 1e-6;
/** Added to a bucket's exponent, so that the bucket of the shortest time is 1. */
const SHIFT = 1 - Math.ceil(Math.log2(TIME_MIN_S) * PER_OCTAVE);
/** Number of buckets, with the bucket 0, which has the times that are 0. */
export const BUCKETS = Math.ceil(Math.log2(TIME_MAX_S) * PER_OCTAVE) + SHIFT + 1;
/** The estimate of a bucket as a part of its upper bound: as far from one bound as from the other. */
const MIDDLE = 2 / (2 ** (1 / PER_OCTAVE) + 1);

/** Returns the bucket of a time in seconds. */
export function bucketOf(seconds: number): number {
  const time = countedTime(seconds);
  return time < TIME_MIN_S ? 0 : Math.ceil(Math.log2(time) * PER_OCTAVE) + SHIFT;
}

function estimateOf(bucket: number): number {
  return bucket === 0 ? 0 : 2 ** ((bucket - SHIFT) / PER_OCTAVE) * MIDDLE;
}

export class Histogram {
  private readonly counts = new Float64Array(BUCKETS);
  private total = 0;

  /** Number of values. */
  get count(): number {
    return this.total;
  }

  add(bucket: number, count = 1): void {
    if (bucket >= BUCKETS) throw new RangeError(`there is no bucket ${bucket}`);
    this.counts[bucket]! += count;
    this.total += count;
  }

  /**
   * Returns the q-quantile in seconds, which is the value at the rank ⌊q(n-1)⌋ of the n sorted
   * values, with a relative error of at most 2%; undefined if there are no values.
   */
  quantile(q: number): number | undefined {
    if (this.total === 0) return undefined;
    const rank = Math.floor(q * (this.total - 1));
    let below = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      below += this.counts[bucket]!;
      if (below > rank) return estimateOf(bucket);
    }
    return undefined;
  }
}
