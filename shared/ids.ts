import { randomFillSync } from 'node:crypto';
import { monotonicFactory } from 'ulid';
import type { Clock } from './clock.ts';

/** Returns a new id at every call. */
export type IdGenerator = () => string;

/**
 * Returns a generator of ULIDs: 26 characters, sorted by time and, within a millisecond, by the
 * order of the calls.
 */
export function createUlidGenerator(clock: Clock): IdGenerator {
  const next = monotonicFactory(createRandom());
  return () => next(clock.nowMs());
}

/**
 * Returns random numbers in [0, 1) of 8 bits, from a buffer: one system call per byte would
 * dominate the cost of an id.
 */
function createRandom(): () => number {
  const bytes = new Uint8Array(4096);
  let at = bytes.length;
  return () => {
    if (at === bytes.length) {
      randomFillSync(bytes);
      at = 0;
    }
    return bytes[at++]! / 256;
  };
}
