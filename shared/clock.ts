/** Where the time comes from; passed in so that tests hold it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
}

export const systemClock: Clock = { nowMs: () => Date.now() };

/**
 * The time of `clock`, but never an earlier one than before: where the clock is set back, it goes on from where it was,
 * at the pace of time, until the clock is ahead again. For what is due at a time that was stored: it must not become
 * due later because somebody mended the clock.
 */
export function monotonicClock(clock: Clock, elapsedMs: () => number = () => performance.now()): Clock {
  let lastMs = clock.nowMs();
  let lastElapsedMs = elapsedMs();
  return {
    nowMs() {
      const toldMs = clock.nowMs();
      const elapsed = elapsedMs();
      lastMs = toldMs >= lastMs ? toldMs : lastMs + elapsed - lastElapsedMs;
      lastElapsedMs = elapsed;
      return Math.floor(lastMs);
    },
  };
}
