import type { Attempt } from './attempt.ts';
import type { EndpointHealth } from './sql/endpoints.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** Milliseconds without a success after which a failing endpoint is disabled. */
export const FAILING_MAX_MS = 5 * DAY_MS;
/**
 * Longer than the longest delay between two attempts of a delivery. After this long without an
 * attempt, the endpoint may have worked meanwhile, so the five days start again.
 */
const SILENCE_MS = 2 * DAY_MS;
/** Consecutive failures after which an endpoint gets one exchange at a time, until a success. */
const FAILURES_UNTIL_SERIAL = 5;

/**
 * Returns the maximum number of concurrent exchanges of an endpoint, in all dispatchers together.
 */
export function concurrencyOf(health: EndpointHealth, standard: number): number {
  return health.failures >= FAILURES_UNTIL_SERIAL ? 1 : standard;
}

export interface ClaimBounds {
  /** Concurrent exchanges of a healthy endpoint, in all dispatchers together. */
  readonly concurrency: number;
  /** Deliveries that may be claimed before one of these exchanges has ended. */
  readonly ahead: number;
  /** Number of deliveries that other dispatchers have claimed. */
  readonly others: number;
}

/**
 * Returns how many deliveries of an endpoint a dispatcher may have claimed, and how many of them it
 * may send concurrently. Only the sole dispatcher of a working endpoint claims ahead: then the
 * claims of all dispatchers together never exceed the concurrency while more than one has any.
 */
export function claimedMax(
  health: EndpointHealth,
  { concurrency, ahead, others }: ClaimBounds,
): { readonly claimed: number; readonly exchanges: number } {
  const bound = concurrencyOf(health, concurrency);
  const free = Math.max(0, bound - others);
  const isAlone = others === 0 && health.failures === 0;
  return { claimed: isAlone ? free + ahead : free, exchanges: free };
}

/** Returns an endpoint's health after these attempts, applied in the order in which they ended. */
export function healthAfter(health: EndpointHealth, attempts: readonly Attempt[]): EndpointHealth {
  return [...attempts].sort((a, b) => a.finishedAtMs - b.finishedAtMs).reduce(healthAfterOne, health);
}

function healthAfterOne(health: EndpointHealth, { outcome, finishedAtMs }: Attempt): EndpointHealth {
  if (outcome.kind === 'delivered') {
    return { ...health, failures: 0, failingSinceMs: null, lastSuccessAtMs: finishedAtMs };
  }
  const continued = health.lastFailureAtMs !== null && finishedAtMs - health.lastFailureAtMs <= SILENCE_MS;
  const failingSinceMs = continued && health.failingSinceMs !== null ? health.failingSinceMs : finishedAtMs;
  const failed: EndpointHealth = {
    ...health,
    failures: health.failures + 1,
    failingSinceMs,
    lastFailureAtMs: finishedAtMs,
    pausedUntilMs: later(health.pausedUntilMs, outcome.pausedUntilMs ?? null),
  };
  if (health.state !== 'enabled') return failed;
  if (outcome.gone) return { ...failed, state: 'disabled', disabledReason: 'gone' };
  if (finishedAtMs - failingSinceMs >= FAILING_MAX_MS) {
    return { ...failed, state: 'disabled', disabledReason: 'failing' };
  }
  return failed;
}

function later(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.max(a, b);
}
