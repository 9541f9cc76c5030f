import type { Clock } from '../../../shared/clock.ts';
import { readEndpointChange, readSecretRotation } from '../../../shared/contracts/webhook-endpoints.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { Handler, HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import { updateEndpoint } from '../../../shared/postgres/change-webhook-endpoint.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { type AllowRule, urlProblem } from '../../../shared/webhooks/addresses.ts';
import { changeEndpointState, type StateChange } from '../../../shared/webhooks/change-endpoint-state.ts';
import { encryptHeaders } from '../../../shared/webhooks/endpoint-headers.ts';
import { endpointHealth } from '../../../shared/webhooks/endpoint-health.ts';
import { rotateSecret } from '../../../shared/webhooks/rotate-secret.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { answerEndpoint, endpointAnswer } from './answer.ts';

export interface ChangeWebhookDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly keyRing: KeyRing;
  readonly allow: readonly AllowRule[];
}

/** Handles `PATCH /admin/v1/webhooks/{endpointId}`: changes the members that the body has. */
export function changeWebhookOperation({ pool, clock, keyRing, allow }: ChangeWebhookDeps): Handler {
  return async (c: HttpContext): Promise<Response> => {
    const parsed = readEndpointChange(c.var.body);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { headers, ...change } = parsed.request;
    const problem = change.url === undefined ? undefined : urlProblem(change.url, allow);
    if (problem !== undefined) return fail(c, '422-01', [{ path: 'url', message: problem }]);
    return await answerEndpoint(c, { clock, segmentsAfter: 0 }, (id, nowMs) => {
      const encrypted = headers === undefined ? {} : { headers: encryptHeaders(keyRing, id, headers) };
      return updateEndpoint(pool, id, { ...change, ...encrypted }, nowMs);
    });
  };
}

/**
 * Handles `POST /admin/v1/webhooks/{endpointId}/pause`, `…/resume` and `…/enable`. Each may be
 * repeated.
 */
export function changeWebhookStateOperation(
  { pool, clock }: Pick<ChangeWebhookDeps, 'pool' | 'clock'>,
  change: StateChange,
): Handler {
  return async (c) => {
    const id = readPathId(c, isStorable, 1);
    if (id.refusal) return refuse(c, id.refusal);
    const nowMs = clock.nowMs();
    const { tenantId } = c.var.apiKey;
    const endpointId = id.id;
    const changed = await withDatabase(c, () =>
      changeEndpointState(pool, { tenantId, endpointId }, change, nowMs),
    );
    if (changed.refusal) return refuse(c, changed.refusal);
    const result = changed.value;
    if (result.kind === 'unknown') return fail(c, '404-01');
    if (result.kind === 'disabled') {
      const message = disabledText(endpointHealth(result.endpoint, nowMs));
      return fail(c, '409-01', [{ path: 'endpointId', message }]);
    }
    const { endpoint, retriesDue } = result;
    return answerJson(c, {
      ...endpointAnswer(endpoint, nowMs),
      ...(retriesDue !== undefined && { retriesDue }),
    });
  };
}

/** Returns the message of a 409-01 for an endpoint that must be enabled first. */
export function disabledText(health: string): string {
  return `is ${health}: enable the endpoint first`;
}

/**
 * Handles `POST /admin/v1/webhooks/{endpointId}/rotate`: gives an endpoint a new secret. Only this
 * answer shows it.
 */
export function rotateWebhookOperation(deps: Omit<ChangeWebhookDeps, 'allow'>): Handler {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable, 1);
    if (id.refusal) return refuse(c, id.refusal);
    const parsed = readSecretRotation(c.var.body);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const { tenantId } = c.var.apiKey;
    const endpointId = id.id;
    const rotated = await withDatabase(c, () => rotateSecret(deps, { tenantId, endpointId }, parsed.request));
    if (rotated.refusal) return refuse(c, rotated.refusal);
    const { value } = rotated;
    if (value.ok) {
      const { secret, previousUntilMs } = value;
      const previousSecretValidUntil =
        previousUntilMs === null ? null : new Date(previousUntilMs).toISOString();
      return answerJson(c, { endpointId, secret, previousSecretValidUntil });
    }
    if (value.why === 'unknown') return fail(c, '404-01');
    return fail(c, '409-01', [{ path: 'overlapSeconds', message: rotatingText(value.untilMs) }]);
  };
}

function rotatingText(untilMs: number): string {
  return `the previous secret signs until ${new Date(untilMs).toISOString()}; 0 ends it and the current one immediately`;
}
