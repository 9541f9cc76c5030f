import { randomFillSync } from 'node:crypto';
import { monotonicFactory } from 'ulid';
import type { Clock } from './clock.ts';

/** Makes a new id at every call. */
export type IdGenerator = () => string;

/** A generator of ULIDs (26 characters, sorted by time and, within a millisecond, by the order of the calls). */
export function createUlidGenerator(clock: Clock): IdGenerator {
  const next = monotonicFactory(createRandom());
  return () => next(clock.nowMs());
}

/** Random numbers in [0, 1) with 8 bits each: asking the system for every byte of an id takes longer than all the rest. */
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
