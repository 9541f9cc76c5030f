import type { Clock } from '../../../shared/clock.ts';
import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import type { TopicPosition } from '../../../shared/contracts/first-position.ts';
import { isKind, KINDS, type Kind } from '../../../shared/contracts/kinds.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { type Delivery, describeDelivery } from '../../../shared/postgres/deliveries/delivery.ts';
import { findDeliveriesOfRecord } from '../../../shared/postgres/deliveries/record-deliveries.ts';
import { type EventTrace, findEvents } from '../../../shared/postgres/event-keys.ts';
import { inTransaction, type Pool } from '../../../shared/postgres/pool.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';

/**
 * Handles `GET /admin/v1/events/{id}?kind=`: returns the status of the record with this eventId or
 * messageId, and the deliveries of its webhooks. Answers 404-01 until a worker has read the record. Answers 400-01 with the kinds if
 * `kind` is missing and several kinds have the id.
 */
export function showEventOperation({ pool, clock }: { readonly pool: Pool; readonly clock: Clock }) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable);
    if (id.refusal?.code === '400-01') return refuse(c, id.refusal);
    const kinds = readKinds(new URL(c.req.url).searchParams);
    if (!kinds.ok) return fail(c, '400-01', [kinds.detail]);
    if (id.refusal) return refuse(c, id.refusal);
    const found = await withDatabase(c, () => findEvents(pool, c.var.apiKey.tenantId, id.id, kinds.value));
    if (found.refusal) return refuse(c, found.refusal);
    const [event, ...others] = found.value;
    if (!event) return fail(c, '404-01', [{ path: 'id', message: 'is not known (yet)' }]);
    if (others.length > 0) {
      const names = found.value.map(({ kind }) => kind).join(', ');
      return fail(c, '400-01', [
        { path: 'kind', message: `is required, as records of several kinds have this id: ${names}` },
      ]);
    }
    const nowMs = clock.nowMs();
    const record = { tenantId: c.var.apiKey.tenantId, id: id.id, kinds: [event.kind], nowMs };
    const deliveries = await withDatabase(c, () =>
      inTransaction(pool, (db) => findDeliveriesOfRecord(db, record), { preferIndexes: true }),
    );
    if (deliveries.refusal) return refuse(c, deliveries.refusal);
    return answerJson(c, answerOf(event, deliveries.value, nowMs));
  };
}

function readKinds(
  query: URLSearchParams,
):
  | { readonly ok: true; readonly value: readonly Kind[] }
  | { readonly ok: false; readonly detail: ErrorDetail } {
  const refuse = (path: string, message: string) => ({ ok: false as const, detail: { path, message } });
  for (const name of query.keys())
    if (name !== 'kind') return refuse('query', 'must have no parameter except kind');
  const given = query.getAll('kind');
  if (given.length > 1) return refuse('kind', 'must be given once');
  const [kind] = given;
  if (kind === undefined) return { ok: true, value: KINDS };
  if (!isKind(kind)) return refuse('kind', `must be one of ${KINDS.join(', ')}`);
  return { ok: true, value: [kind] };
}

function answerOf(event: EventTrace, deliveries: readonly Delivery[], nowMs: number) {
  const { id, kind, status, acceptedAtMs, storedAtMs, position, conflicts, lastConflict, error } = event;
  return {
    id,
    kind,
    status,
    acceptedAt: new Date(acceptedAtMs).toISOString(),
    storedAt: status === 'stored' ? new Date(storedAtMs).toISOString() : null,
    ...(status === 'dead-lettered' && { position: positionOf(position) }),
    conflicts,
    ...(lastConflict && {
      lastConflict: {
        at: new Date(lastConflict.atMs).toISOString(),
        position: positionOf(lastConflict.position),
      },
    }),
    ...(error === null ? {} : { error }),
    deliveries: deliveries.map((one) => describeDelivery(one, nowMs)),
  };
}

function positionOf({ generation, partition, offset }: TopicPosition) {
  return { generation, partition, offset: String(offset) };
}
