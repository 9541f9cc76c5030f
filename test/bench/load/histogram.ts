const BUCKETS_PER_MS = 20;
const MS_MAX = 120_000;

/** Counts latencies in buckets of 0.05 ms. Longer ones than 2 minutes count as 2 minutes. */
export class Histogram {
  private readonly counts = new Uint32Array(MS_MAX * BUCKETS_PER_MS + 1);
  private total = 0;

  add(ms: number): void {
    this.counts[Math.min(Math.floor(ms * BUCKETS_PER_MS), this.counts.length - 1)]! += 1;
    this.total += 1;
  }

  /** Returns the upper bound of the bucket with this share of the latencies. NaN if there are none. */
  percentile(share: number): number {
    let left = Math.max(1, Math.ceil(this.total * share));
    for (let bucket = 0; bucket < this.counts.length; bucket++) {
      left -= this.counts[bucket]!;
      if (left <= 0) return (bucket + 1) / BUCKETS_PER_MS;
    }
    return Number.NaN;
  }
}
