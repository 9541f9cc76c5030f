import type { Clock } from '../../../shared/clock.ts';
import { answerEmpty } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { deleteEndpoint } from '../../../shared/postgres/webhook-endpoints.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';

/**
 * Handles `DELETE /admin/v1/webhooks/{endpointId}`: deletes an endpoint. Its pending deliveries are
 * not sent.
 */
export function deleteWebhookOperation({ pool, clock }: { readonly pool: Pool; readonly clock: Clock }) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable);
    if (id.refusal) return refuse(c, id.refusal);
    const { tenantId } = c.var.apiKey;
    const deleted = await withDatabase(c, () => deleteEndpoint(pool, tenantId, id.id, clock.nowMs()));
    if (deleted.refusal) return refuse(c, deleted.refusal);
    return deleted.value ? answerEmpty(c, 204) : fail(c, '404-01');
  };
}
