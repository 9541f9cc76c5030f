import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { type Endpoint, findEndpoints } from '../../../shared/postgres/webhook-endpoints.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';

/** Handles `GET /admin/v1/webhooks`: lists the tenant's endpoints without their secrets. */
export function listWebhooksOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const found = await withDatabase(c, () => findEndpoints(pool, [c.var.apiKey.tenantId]));
    return found.refusal ? refuse(c, found.refusal) : answerJson(c, { items: found.value.map(answerOf) });
  };
}

/** Handles `GET /admin/v1/webhooks/{endpointId}`: returns one endpoint without its secret. */
export function showWebhookOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable);
    if (id.refusal) return refuse(c, id.refusal);
    const found = await withDatabase(c, () => findEndpoints(pool, [c.var.apiKey.tenantId], id.id));
    if (found.refusal) return refuse(c, found.refusal);
    const [endpoint] = found.value;
    return endpoint ? answerJson(c, answerOf(endpoint)) : fail(c, '404-01');
  };
}

function answerOf({ endpointId, url, eventTypes, state, disabledReason, createdAtMs, createdBy }: Endpoint) {
  return {
    endpointId,
    url,
    eventTypes,
    state,
    ...(disabledReason === null ? {} : { disabledReason }),
    createdAt: new Date(createdAtMs).toISOString(),
    createdBy,
  };
}
