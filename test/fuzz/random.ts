import { seededRandom } from '../support/random.ts';

/** Choices that are the same for the same seed. */
export interface Random {
  /** From 0 to below 1. */
  next(): number;
  /** A whole number from 0 to below `end`. */
  below(end: number): number;
  of<T>(values: readonly T[]): T;
  /** Whether something happens that happens once in `times`. */
  oneIn(times: number): boolean;
  bytes(count: number): Buffer;
}

/** For request `index` of a run: whatever other requests draw, so that one can be sent again by itself. */
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
