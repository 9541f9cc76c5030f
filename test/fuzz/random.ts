import { seededRandom } from '../support/random.ts';

/** Random choices that repeat for the same seed. */
export interface Random {
  /** Returns a number from 0 to below 1. */
  next(): number;
  /** Returns a whole number from 0 to below `end`. */
  below(end: number): number;
  of<T>(values: readonly T[]): T;
  /** Returns true with a probability of 1 in `times`. */
  oneIn(times: number): boolean;
  bytes(count: number): Buffer;
}

/**
 * Returns the random choices for request `index` of a run, independent of other requests. One
 * request can therefore be repeated alone.
 */
export function randomOf(seed: number, index: number): Random {
  const next = seededRandom(seed + Math.imul(index + 1, 0x9e3779b1));
  const below = (end: number) => Math.floor(next() * end);
  return {
    next,
    below,
    of: (values) => values[below(values.length)]!,
    oneIn: (times) => below(times) === 0,
    bytes: (count) => Buffer.from(Array.from({ length: count }, () => below(256))),
  };
}
