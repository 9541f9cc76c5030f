import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { parseDeliveryId } from '../../../shared/postgres/deliveries/delivery.ts';
import { describeDetails, findDelivery } from '../../../shared/postgres/deliveries/find-delivery.ts';
import { readPathId } from '../../request/path-id.ts';
import type { DeliveriesDeps } from './list.ts';

/** Returns whether a text can be the id of a delivery. */
export const isDeliveryId = (text: string) => parseDeliveryId(text) !== undefined;

/** Handles `GET /admin/v1/deliveries/{deliveryId}`: a delivery with its body and its attempts. */
export function showDeliveryOperation({ pool, clock }: DeliveriesDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isDeliveryId);
    if (path.refusal) return refuse(c, path.refusal);
    const key = parseDeliveryId(path.id)!;
    const { tenantId } = c.var.apiKey;
    const nowMs = clock.nowMs();
    const found = await withDatabase(c, () => findDelivery(pool, tenantId, key, nowMs));
    if (found.refusal) return refuse(c, found.refusal);
    return found.value ? answerJson(c, describeDetails(found.value, nowMs)) : fail(c, '404-01');
  };
}
