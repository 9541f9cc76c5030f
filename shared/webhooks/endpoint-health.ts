import { type Endpoint, isPausedByOwner } from '../postgres/webhook-endpoints.ts';

type Health = Pick<
  Endpoint,
  'state' | 'disabledReason' | 'pausedUntilMs' | 'failures' | 'failingSinceMs' | 'lastFailureAtMs'
>;

const REASONS: Readonly<Record<string, string>> = {
  gone: 'it answered 410',
  failing: 'it failed for 5 days',
  revoked: 'the API key that created it was revoked',
};

/**
 * Returns the health of an endpoint in words: `healthy`, `failing since …`, `paused until …` (at the
 * endpoint's own request), `paused` (by its owner), or `disabled because …`.
 */
export function endpointHealth(endpoint: Health, nowMs: number): string {
  const { state, disabledReason, pausedUntilMs, failures, failingSinceMs, lastFailureAtMs } = endpoint;
  if (state === 'disabled') {
    return `disabled because ${REASONS[disabledReason ?? ''] ?? disabledReason ?? 'of an unknown reason'}`;
  }
  if (isPausedByOwner(endpoint)) return 'paused';
  if (pausedUntilMs !== null && pausedUntilMs > nowMs) return `paused until ${timeText(pausedUntilMs)}`;
  if (failures > 0) return `failing since ${timeText(failingSinceMs ?? lastFailureAtMs ?? nowMs)}`;
  return 'healthy';
}

function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
