import type { RetrySchedule } from '../../shared/contracts/webhook-endpoints.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Milliseconds from the end of each failed attempt to the next attempt, by schedule. */
const RETRY_DELAYS_MS: Readonly<Record<RetrySchedule, readonly number[]>> = {
  standard: [
    5 * SECOND_MS,
    5 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    5 * HOUR_MS,
    10 * HOUR_MS,
    14 * HOUR_MS,
    20 * HOUR_MS,
    24 * HOUR_MS,
  ],
  short: [5 * SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS],
  none: [],
};
/**
 * Each delay is up to a tenth shorter or longer, so that deliveries that failed together are not
 * retried together.
 */
const JITTER = 0.1;

/**
 * The schedule of deliveries whose sender was killed before it knew the result, at endpoints with
 * any schedule: that nobody knows of a failure must not end a delivery after one attempt.
 */
export const LOST_SCHEDULE: RetrySchedule = 'standard';

/** How long a failing delivery holds later deliveries of its conversation. */
export const HOLD_MS = HOUR_MS;

/** Returns the number of attempts after which a delivery has failed permanently. */
export function attemptsMax(schedule: RetrySchedule): number {
  return RETRY_DELAYS_MS[schedule].length + 1;
}

/**
 * Returns when the attempt after number `attempt` (from 1) is due; undefined if that was the last
 * one. `random` returns numbers from 0 (inclusive) to 1 (exclusive).
 */
export function nextAttemptAtMs(
  schedule: RetrySchedule,
  attempt: number,
  finishedAtMs: number,
  random: () => number,
): number | undefined {
  const delayMs = RETRY_DELAYS_MS[schedule][attempt - 1];
  if (delayMs === undefined) return undefined;
  return Math.round(finishedAtMs + delayMs * (1 + JITTER * (2 * random() - 1)));
}
