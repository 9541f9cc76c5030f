import type { Clock } from '../../../shared/clock.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { findEndpoints } from '../../../shared/postgres/webhook-endpoints.ts';
import { answerEndpoint, endpointAnswer } from './answer.ts';

interface ReadDeps {
  readonly pool: Pool;
  readonly clock: Clock;
}

/** Handles `GET /admin/v1/webhooks`: lists the tenant's endpoints without their secrets. */
export function listWebhooksOperation({ pool, clock }: ReadDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const found = await withDatabase(c, () => findEndpoints(pool, [c.var.apiKey.tenantId]));
    if (found.refusal) return refuse(c, found.refusal);
    const nowMs = clock.nowMs();
    return answerJson(c, { items: found.value.map((endpoint) => endpointAnswer(endpoint, nowMs)) });
  };
}

/** Handles `GET /admin/v1/webhooks/{endpointId}`: returns one endpoint without its secrets. */
export function showWebhookOperation({ pool, clock }: ReadDeps) {
  return (c: HttpContext): Promise<Response> =>
    answerEndpoint(c, { clock, segmentsAfter: 0 }, async ({ tenantId, endpointId }) => {
      const [endpoint] = await findEndpoints(pool, [tenantId], endpointId);
      return endpoint;
    });
}
