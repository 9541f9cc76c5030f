import { type Endpoint, isPausedByOwner } from '../../shared/postgres/webhook-endpoints.ts';
import { endpointHealth } from '../../shared/webhooks/endpoint-health.ts';
import { timeOf } from '../printable.ts';
import type { NamedEndpoint } from './endpoints.ts';

/** Returns an endpoint as `--json` prints it. */
export function endpointJson(endpoint: NamedEndpoint, nowMs: number) {
  const { tenant, endpointId, url, description, state, disabledReason, failures } = endpoint;
  const time = (ms: number | null) => (ms === null ? null : timeOf(ms));
  const isPaused = isPausedByOwner(endpoint);
  return {
    tenant,
    endpointId,
    url,
    eventTypes: endpoint.eventTypes,
    description,
    headerNames: endpoint.headerNames ?? [],
    ratePerSecond: endpoint.ratePerSecond,
    retrySchedule: endpoint.retrySchedule,
    state,
    disabledReason,
    health: endpointHealth(endpoint, nowMs),
    failures,
    lastSuccessAt: time(endpoint.lastSuccessAtMs),
    lastFailureAt: time(endpoint.lastFailureAtMs),
    paused: isPaused,
    pausedUntil: isPaused ? null : time(endpoint.pausedUntilMs),
    previousSecretValidUntil: time(overlapEnd(endpoint, nowMs)),
    createdAt: timeOf(endpoint.createdAtMs),
    createdBy: endpoint.createdBy,
  };
}

/** Returns the settings and the health of an endpoint as rows of a table. */
export function endpointRows(endpoint: NamedEndpoint, nowMs: number): [string, string][] {
  const { ratePerSecond, headerNames } = endpoint;
  const overlapMs = overlapEnd(endpoint, nowMs);
  return [
    ['tenant', endpoint.tenant],
    ['url', endpoint.url],
    ['types', filtersText(endpoint)],
    ['description', endpoint.description ?? ''],
    ['custom headers', headerNames?.join('\n') ?? 'none'],
    ['rate', ratePerSecond === null ? 'no limit' : `${ratePerSecond} per second`],
    ['retry schedule', endpoint.retrySchedule],
    ['health', endpointHealth(endpoint, nowMs)],
    ...(overlapMs === null
      ? []
      : ([['previous secret', `signs until ${timeOf(overlapMs)}`]] satisfies [string, string][])),
  ];
}

/** Returns the health of an endpoint in words, for a column of a table. */
export function healthOf(endpoint: Endpoint, nowMs: number): string {
  return endpointHealth(endpoint, nowMs).replace(/ (since|until|because) /, ' $1\n');
}

/** Returns the filters by type of an endpoint, for a table. */
export function filtersText({ eventTypes }: Pick<Endpoint, 'eventTypes'>): string {
  return eventTypes === null ? 'all' : eventTypes.join('\n');
}

function overlapEnd({ previousSecretUntilMs }: Endpoint, nowMs: number): number | null {
  return previousSecretUntilMs !== null && previousSecretUntilMs > nowMs ? previousSecretUntilMs : null;
}
