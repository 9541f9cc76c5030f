import type { Clock } from '../../../shared/clock.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { describeQueued } from '../../../shared/postgres/deliveries/count-queued.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { findEndpoints } from '../../../shared/postgres/webhook-endpoints.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { endpointAnswer } from './answer.ts';

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

/**
 * Handles `GET /admin/v1/webhooks/{endpointId}`: returns one endpoint without its secrets, and the webhooks
 * that wait for it.
 */
export function showWebhookOperation({ pool, clock }: ReadDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable);
    if (id.refusal) return refuse(c, id.refusal);
    const nowMs = clock.nowMs();
    const found = await withDatabase(c, async () => {
      const [endpoint] = await findEndpoints(pool, [c.var.apiKey.tenantId], id.id);
      if (!endpoint) return undefined;
      return { ...endpointAnswer(endpoint, nowMs), ...(await describeQueued(pool, endpoint, nowMs)) };
    });
    if (found.refusal) return refuse(c, found.refusal);
    return found.value ? answerJson(c, found.value) : fail(c, '404-01');
  };
}
