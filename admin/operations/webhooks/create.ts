import type { Clock } from '../../../shared/clock.ts';
import { readEndpointRequest } from '../../../shared/contracts/webhook-endpoints.ts';
import { AppError } from '../../../shared/errors.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { type AllowRule, urlProblem } from '../../../shared/webhooks/addresses.ts';
import {
  CREATOR_REVOKED,
  createWebhookEndpoint,
  ENDPOINTS_EXHAUSTED,
} from '../../../shared/webhooks/create-endpoint.ts';
import { endpointAnswer } from './answer.ts';

export interface CreateWebhookDeps {
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly allow: readonly AllowRule[];
  /** Maximum endpoints per tenant. */
  readonly endpointsMax: number;
}

/**
 * Handles `POST /admin/v1/webhooks`: creates a webhook endpoint. Only this answer shows the
 * endpoint's secret.
 */
export function createWebhookOperation({ allow, ...deps }: CreateWebhookDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const parsed = readEndpointRequest(c.var.body);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const problem = urlProblem(parsed.request.url, allow);
    if (problem !== undefined) return fail(c, '422-01', [{ path: 'url', message: problem }]);

    const { tenantId, apiKeyId } = c.var.apiKey;
    const created = await withDatabase(c, () =>
      createWebhookEndpoint(deps, { ...parsed.request, tenantId, createdBy: apiKeyId }).catch(refused),
    );
    if (created.refusal) return refuse(c, created.refusal);
    if (created.value instanceof AppError) {
      if (created.value.code === CREATOR_REVOKED) return fail(c, '401-01');
      return fail(c, '422-01', [{ path: 'body', message: tooMany(deps.endpointsMax) }]);
    }
    const { secret, ...endpoint } = created.value;
    return answerJson(c, { ...endpointAnswer(endpoint, deps.clock.nowMs()), secret }, 201);
  };
}

/** Returns the error if it is a refusal of the request; rethrows any other error. */
function refused(error: unknown): AppError {
  if (error instanceof AppError && [ENDPOINTS_EXHAUSTED, CREATOR_REVOKED].includes(error.code)) return error;
  throw error;
}

function tooMany(endpointsMax: number): string {
  return `a tenant may have at most ${endpointsMax} webhook endpoints: delete one first`;
}
