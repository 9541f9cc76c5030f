/** A source of time, passed in so that tests can control it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
}

export const systemClock: Clock = { nowMs: () => Date.now() };

/**
 * Returns a clock that never goes back. When `clock` is set back, the result continues at the pace
 * of `elapsedMs` until `clock` is ahead again. Used for work that is due at a stored time:
 * correcting the clock must not delay that work.
 */
export function monotonicClock(clock: Clock, elapsedMs: () => number = () => performance.now()): Clock {
  let lastMs = clock.nowMs();
  let lastElapsedMs = elapsedMs();
  return {
    nowMs() {
      const givenMs = clock.nowMs();
      const elapsed = elapsedMs();
      lastMs = givenMs >= lastMs ? givenMs : lastMs + elapsed - lastElapsedMs;
      lastElapsedMs = elapsed;
      return Math.floor(lastMs);
    },
  };
}
