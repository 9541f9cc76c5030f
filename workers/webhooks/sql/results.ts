import type { Queryable } from '../../../shared/postgres/pool.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { moveToHistory, QUEUED_COLUMNS } from './history.ts';
import type { DeliveryId } from './queue.ts';

/** The state of a delivery after an attempt. */
export interface DeliveryResult extends DeliveryId {
  /** The token that identifies the lease under which the delivery was sent. */
  readonly token: string;
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly finishedAtMs: number;
  /** When the next attempt is due; ignored unless pending. */
  readonly dueAtMs: number;
}

/**
 * Stores results whose lease is still valid. Resolves with the ordering keys of their deliveries by
 * message id. A delivery that is missing in the result was claimed by another dispatcher, or
 * dropped, meanwhile. Runs under the endpoint's lock.
 */
export async function recordResults(
  client: Queryable,
  id: EndpointId,
  results: readonly DeliveryResult[],
): Promise<Map<string, string | null>> {
  const ended = results.filter(({ state }) => state !== 'pending');
  const retried = results.filter(({ state }) => state === 'pending');
  return new Map([
    ...(ended.length > 0 ? await recordEnded(client, id, ended) : []),
    ...(retried.length > 0 ? await recordRetried(client, id, retried) : []),
  ]);
}

interface Row {
  readonly messageId: string;
  readonly orderingKey: string | null;
}

async function recordEnded(
  client: Queryable,
  id: EndpointId,
  results: readonly DeliveryResult[],
): Promise<[string, string | null][]> {
  const ended = `delete from webhook_queue q
        using unnest($3::text[], $4::text[], $5::text[], $6::timestamptz[])
          as given (message_id, token, state, finished_at)
        where q.tenant_id = $1 and q.endpoint_id = $2
          and q.message_id = given.message_id and q.lease_token = given.token
       returning ${QUEUED_COLUMNS}, given.state, given.finished_at,
                 case when given.state = 'delivered' then q.first_failed_at
                      else coalesce(q.first_failed_at, given.finished_at) end as first_failed_at`;
  const { rows } = await client.query<Row>(
    `${moveToHistory(ended)} returning message_id as "messageId", ordering_key as "orderingKey"`,
    [
      id.tenantId,
      id.endpointId,
      results.map(({ messageId }) => messageId),
      results.map(({ token }) => token),
      results.map(({ state }) => state),
      results.map(({ finishedAtMs }) => new Date(finishedAtMs)),
    ],
  );
  return rows.map((row) => [row.messageId, row.orderingKey]);
}

async function recordRetried(
  client: Queryable,
  id: EndpointId,
  results: readonly DeliveryResult[],
): Promise<[string, string | null][]> {
  const { rows } = await client.query<Row>(
    `update webhook_queue q
        set due_at = given.due_at,
            lease_token = null,
            first_failed_at = coalesce(q.first_failed_at, given.finished_at)
       from unnest($3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
         as given (message_id, token, finished_at, due_at)
      where q.tenant_id = $1 and q.endpoint_id = $2
        and q.message_id = given.message_id and q.lease_token = given.token
     returning q.message_id as "messageId", q.ordering_key as "orderingKey"`,
    [
      id.tenantId,
      id.endpointId,
      results.map(({ messageId }) => messageId),
      results.map(({ token }) => token),
      results.map(({ finishedAtMs }) => new Date(finishedAtMs)),
      results.map(({ dueAtMs }) => new Date(dueAtMs)),
    ],
  );
  return rows.map((row) => [row.messageId, row.orderingKey]);
}
