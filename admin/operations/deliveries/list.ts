import type { Clock } from '../../../shared/clock.ts';
import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { parseTimestampNs } from '../../../shared/contracts/timestamps.ts';
import { isWebhookType, WEBHOOK_TYPES } from '../../../shared/contracts/webhooks.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import {
  DELIVERY_STATES,
  describeDelivery,
  isDeliveryState,
} from '../../../shared/postgres/deliveries/delivery.ts';
import {
  type DeliveryList,
  isDeliveryPlace,
  listDeliveries,
} from '../../../shared/postgres/deliveries/list-deliveries.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { findEndpoints } from '../../../shared/postgres/webhook-endpoints.ts';
import { readCursor, UNKNOWN_CURSOR, writeCursor } from '../../request/cursor.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { readPageQuery } from '../../request/query.ts';

const NAMES = ['state', 'type', 'from', 'to', 'conversation', 'recordId', 'limit', 'cursor'] as const;

export interface DeliveriesDeps {
  readonly pool: Pool;
  readonly clock: Clock;
}

/**
 * Handles `GET /admin/v1/webhooks/{endpointId}/deliveries`: a page of the endpoint's deliveries, newest
 * first.
 */
export function listDeliveriesOperation({ pool, clock }: DeliveriesDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const path = readPathId(c, isStorable, 1);
    if (path.refusal?.code === '400-01') return refuse(c, path.refusal);
    const query = readPageQuery(new URL(c.req.url).searchParams, NAMES);
    if (!query.ok) return fail(c, '400-01', [query.detail]);
    const filter = readFilter(query.values);
    if (!filter.ok) return fail(c, filter.code, [filter.detail]);
    if (path.refusal) return refuse(c, path.refusal);
    const { tenantId } = c.var.apiKey;
    const { cursor, limit: _, ...filters } = query.values;
    const cursorList = [tenantId, 'deliveries', path.id, JSON.stringify(filters)];
    const after = cursor === undefined ? undefined : readCursor(cursorList, cursor);
    const isKnown = cursor === undefined || (after !== undefined && isDeliveryPlace(after));
    if (!isKnown) return fail(c, '400-01', [UNKNOWN_CURSOR]);
    const nowMs = clock.nowMs();
    const list = { tenantId, endpointId: path.id, filter: filter.value, after, limit: query.limit };
    const found = await withDatabase(c, async () => {
      const [endpoint] = await findEndpoints(pool, [tenantId], path.id);
      return endpoint && (await listDeliveries(pool, { ...list, nowMs }));
    });
    if (found.refusal) return refuse(c, found.refusal);
    if (!found.value) return fail(c, '404-01');
    const { deliveries, next } = found.value;
    return answerJson(c, {
      items: deliveries.map((one) => describeDelivery(one, nowMs)),
      ...(next !== undefined && { next: writeCursor(cursorList, next) }),
    });
  };
}

type Filter =
  | { readonly ok: true; readonly value: DeliveryList['filter'] }
  | { readonly ok: false; readonly code: '400-01' | '422-01'; readonly detail: ErrorDetail };

function readFilter({
  state,
  type,
  from,
  to,
  conversation,
  recordId,
}: Partial<Record<string, string>>): Filter {
  const refused = (path: string, message: string) =>
    ({ ok: false, code: '400-01', detail: { path, message } }) as const;
  if (state !== undefined && !isDeliveryState(state)) {
    return refused('state', `must be one of ${DELIVERY_STATES.join(', ')}`);
  }
  if (type !== undefined && !isWebhookType(type)) {
    return refused('type', `must be one of ${WEBHOOK_TYPES.join(', ')}`);
  }
  const times: { fromMs?: number; toMs?: number } = {};
  for (const [name, text] of Object.entries({ from, to })) {
    if (text === undefined) continue;
    const ns = parseTimestampNs(text);
    if (ns === undefined) return refused(name, TIME_MESSAGE);
    times[name === 'from' ? 'fromMs' : 'toMs'] = Number(ns / 1_000_000n);
  }
  for (const [name, text] of Object.entries({ conversation, recordId })) {
    if (text === '' || (text !== undefined && !isStorable(text))) return refused(name, 'must be an id');
  }
  if ((times.fromMs ?? -Infinity) >= (times.toMs ?? Infinity)) {
    return { ok: false, code: '422-01', detail: REVERSED_RANGE };
  }
  return {
    ok: true,
    value: {
      ...(state !== undefined && { states: [state] }),
      ...(type !== undefined && { types: [type] }),
      ...times,
      ...(conversation !== undefined && { conversation }),
      ...(recordId !== undefined && { recordId }),
    },
  };
}

export const TIME_MESSAGE = 'must be a time with offset such as 2030-01-31T00:00:00Z';
/** The detail of a 422-01 for a range of times that is empty, or ends before it begins. */
export const REVERSED_RANGE = { path: 'to', message: 'must be after from' };
