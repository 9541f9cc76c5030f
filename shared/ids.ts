import { monotonicFactory } from 'ulid';
import type { Clock } from './clock.ts';

/** Makes a new id at every call. */
export type IdGenerator = () => string;

/** A generator of ULIDs (26 characters, sorted by time and, within a millisecond, by the order of the calls). */
export function createUlidGenerator(clock: Clock): IdGenerator {
  const next = monotonicFactory();
  return () => next(clock.nowMs());
}
