import type { Clock } from '../../../shared/clock.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Endpoint, EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { endpointHealth } from '../../../shared/webhooks/endpoint-health.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';

/** Returns an endpoint as answers show it, without its secrets. */
export function endpointAnswer(endpoint: Endpoint, nowMs: number) {
  const { endpointId, url, eventTypes, description, headerNames, ratePerSecond, retrySchedule } = endpoint;
  const { state, disabledReason, failures, previousSecretUntilMs, createdAtMs, createdBy } = endpoint;
  const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  const isOverlap = previousSecretUntilMs !== null && previousSecretUntilMs > nowMs;
  return {
    endpointId,
    url,
    eventTypes,
    description,
    headerNames: headerNames ?? [],
    ratePerSecond,
    retrySchedule,
    state,
    ...(disabledReason === null ? {} : { disabledReason }),
    health: endpointHealth(endpoint, nowMs),
    failures,
    lastSuccessAt: time(endpoint.lastSuccessAtMs),
    lastFailureAt: time(endpoint.lastFailureAtMs),
    previousSecretValidUntil: isOverlap ? time(previousSecretUntilMs) : null,
    createdAt: time(createdAtMs),
    createdBy,
  };
}

/**
 * Handles a request for the endpoint that its path names, `segmentsAfter` segments before the
 * path's end: answers with the endpoint that `work` resolves with, or 404-01.
 */
export async function answerEndpoint(
  c: HttpContext,
  { clock, segmentsAfter }: { readonly clock: Clock; readonly segmentsAfter: number },
  work: (id: EndpointId, nowMs: number) => Promise<Endpoint | undefined>,
): Promise<Response> {
  const id = readPathId(c, isStorable, segmentsAfter);
  if (id.refusal) return refuse(c, id.refusal);
  const nowMs = clock.nowMs();
  const { tenantId } = c.var.apiKey;
  const found = await withDatabase(c, () => work({ tenantId, endpointId: id.id }, nowMs));
  if (found.refusal) return refuse(c, found.refusal);
  return found.value ? answerJson(c, endpointAnswer(found.value, nowMs)) : fail(c, '404-01');
}
