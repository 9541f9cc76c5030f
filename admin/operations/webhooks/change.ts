import type { Clock } from '../../../shared/clock.ts';
import { readEndpointChange, readSecretRotation } from '../../../shared/contracts/webhook-endpoints.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { Handler, HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import {
  enableEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  updateEndpoint,
} from '../../../shared/postgres/change-webhook-endpoint.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { type AllowRule, urlProblem } from '../../../shared/webhooks/addresses.ts';
import { encryptHeaders } from '../../../shared/webhooks/endpoint-headers.ts';
import { rotateSecret } from '../../../shared/webhooks/rotate-secret.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { answerEndpoint } from './answer.ts';

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

const STATE_CHANGES = { pause: pauseEndpoint, resume: resumeEndpoint, enable: enableEndpoint };

export type StateChange = keyof typeof STATE_CHANGES;
export const ENDPOINT_STATE_CHANGES = Object.keys(STATE_CHANGES) as StateChange[];

/**
 * Handles `POST /admin/v1/webhooks/{endpointId}/pause`, `…/resume` and `…/enable`. Each may be
 * repeated.
 */
export function changeWebhookStateOperation(
  { pool, clock }: Pick<ChangeWebhookDeps, 'pool' | 'clock'>,
  change: StateChange,
): Handler {
  return (c) =>
    answerEndpoint(c, { clock, segmentsAfter: 1 }, (id, nowMs) => STATE_CHANGES[change](pool, id, nowMs));
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
