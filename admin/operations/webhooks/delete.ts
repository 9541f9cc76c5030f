import type { Clock } from '../../../shared/clock.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { deleteEndpoint } from '../../../shared/postgres/webhook-endpoints.ts';
import { MALFORMED_PATH, pathId } from '../../request/path-id.ts';

/** `DELETE /admin/v1/webhooks/{endpointId}`: nothing is sent to it any more, what waits included. */
export function deleteWebhookOperation({ pool, clock }: { readonly pool: Pool; readonly clock: Clock }) {
  return async (c: HttpContext): Promise<Response> => {
    const endpointId = pathId(c);
    if (endpointId === undefined) return fail(c, '400-01', [MALFORMED_PATH]);
    if (!endpointId.isWellFormed() || endpointId.includes('\0')) return fail(c, '404-01');
    const { tenantId } = c.var.apiKey;
    const deleted = await withDatabase(c, () => deleteEndpoint(pool, tenantId, endpointId, clock.nowMs()));
    if (deleted.refusal) return refuse(c, deleted.refusal);
    return deleted.value ? c.body(null, 204) : fail(c, '404-01');
  };
}
