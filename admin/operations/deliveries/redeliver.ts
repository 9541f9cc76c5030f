import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { describeDelivery, parseDeliveryId } from '../../../shared/postgres/deliveries/delivery.ts';
import { redeliver } from '../../../shared/postgres/deliveries/redeliver.ts';
import { readPathId } from '../../request/path-id.ts';
import type { DeliveriesDeps } from './list.ts';
import { isDeliveryId } from './show.ts';

/** Handles `POST /admin/v1/deliveries/{deliveryId}/redeliver`: queues a delivery again. */
export function redeliverOperation({ pool, clock }: DeliveriesDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isDeliveryId, 1);
    if (path.refusal) return refuse(c, path.refusal);
    const key = parseDeliveryId(path.id)!;
    const { tenantId } = c.var.apiKey;
    const nowMs = clock.nowMs();
    const done = await withDatabase(c, () => redeliver(pool, tenantId, key, nowMs));
    if (done.refusal) return refuse(c, done.refusal);
    if (done.value.kind === 'unknown') return fail(c, '404-01');
    if (done.value.kind === 'refused') {
      return fail(c, '409-01', [{ path: 'deliveryId', message: done.value.reason }]);
    }
    return answerJson(c, describeDelivery(done.value.delivery, nowMs), 202);
  };
}
