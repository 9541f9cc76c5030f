import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { type Endpoint, findEndpoints } from '../../../shared/postgres/webhook-endpoints.ts';
import { MALFORMED_PATH, pathId } from '../../request/path-id.ts';

/** `GET /admin/v1/webhooks`: the caller's endpoints, without their secrets. */
export function listWebhooksOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const found = await withDatabase(c, () => findEndpoints(pool, [c.var.apiKey.tenantId]));
    return found.refusal ? refuse(c, found.refusal) : c.json({ items: found.value.map(answerOf) });
  };
}

/** `GET /admin/v1/webhooks/{endpointId}`: one endpoint. */
export function showWebhookOperation(pool: Pool) {
  return async (c: HttpContext): Promise<Response> => {
    const endpointId = pathId(c);
    if (endpointId === undefined) return fail(c, '400-01', [MALFORMED_PATH]);
    if (!endpointId.isWellFormed() || endpointId.includes('\0')) return fail(c, '404-01');
    const found = await withDatabase(c, () => findEndpoints(pool, [c.var.apiKey.tenantId], endpointId));
    if (found.refusal) return refuse(c, found.refusal);
    const [endpoint] = found.value;
    return endpoint ? c.json(answerOf(endpoint)) : fail(c, '404-01');
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
