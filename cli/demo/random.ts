import { createHash } from 'node:crypto';

/** Random values that repeat for the same seed (mulberry32). */
export class Random {
  #state: number;

  /** The parts of the seed together select the values, so that each part of the traffic has its own. */
  constructor(...seed: readonly (number | string)[]) {
    this.#state = createHash('sha256').update(seed.join('/')).digest().readUInt32LE(0);
  }

  /** Returns a number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Returns a whole number from `min` to `max`. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  pick<T>(from: readonly T[]): T {
    return from[this.int(0, from.length - 1)]!;
  }

  /** Returns an entry, each with a probability in proportion to its weight. */
  weighted<T>(from: readonly (readonly [T, weight: number])[]): T {
    let at = this.next() * from.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [value, weight] of from) {
      at -= weight;
      if (at < 0) return value;
    }
    return from.at(-1)![0];
  }

  /** Returns a waiting time with this mean (exponential distribution), as between independent arrivals. */
  waiting(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }

  /** Returns a duration with this median (log-normal distribution): most are short, a few are long. */
  duration(median: number, spread = 0.6): number {
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
    return median * Math.exp(spread * normal);
  }

  hex(digits: number): string {
    return Array.from({ length: digits }, () => this.int(0, 15).toString(16)).join('');
  }
}
