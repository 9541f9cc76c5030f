import { type Column, unnestRows } from '../../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import {
  ATTEMPT_PART_COLUMNS,
  type AttemptParts,
  type AttemptRecord,
} from '../../../shared/postgres/webhook-attempts.ts';
import type { EndpointId } from '../../../shared/postgres/webhook-endpoints.ts';
import { onShards } from '../../sql/by-tenant.ts';
import { HISTORY_COLUMNS, INSERT_ENDED } from './history.ts';

/** A delivery and the token of the lease under which it was claimed. */
export interface Leased extends EndpointId {
  readonly messageId: string;
  readonly token: string;
}

/** The state of a delivery after an attempt, with the attempt. */
export interface DeliveryResult extends Leased, AttemptRecord, AttemptParts {
  readonly state: 'pending' | 'delivered' | 'failed';
  /** When the next attempt is due; ignored unless pending. */
  readonly dueAtMs: number;
}

/** A delivery whose result was stored. */
export interface Recorded extends EndpointId {
  readonly messageId: string;
  readonly orderingKey: string | null;
  /** Whether later deliveries of its conversation are parked. */
  readonly parked: boolean;
}

/**
 * Stores results whose lease is still valid, and their attempts, of any number of endpoints.
 * Resolves with their deliveries. A delivery that is missing in the result was claimed by another
 * dispatcher, or dropped, meanwhile. Runs under the endpoints' locks.
 */
export async function recordResults(
  client: Queryable,
  results: readonly DeliveryResult[],
): Promise<Recorded[]> {
  const ended = results.filter(({ state }) => state !== 'pending');
  const retried = results.filter(({ state }) => state === 'pending');
  return [
    ...(ended.length > 0 ? await record(client, endedOf, ended) : []),
    ...(retried.length > 0 ? await record(client, retriedOf, retried) : []),
  ];
}

const COLUMNS: readonly Column<DeliveryResult>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'endpoint_id', type: 'text', value: ({ endpointId }) => endpointId },
  { name: 'message_id', type: 'text', value: ({ messageId }) => messageId },
  { name: 'token', type: 'text', value: ({ token }) => token },
  { name: 'state', type: 'text', value: ({ state }) => state },
  { name: 'due_at', type: 'timestamptz', value: ({ dueAtMs }) => dueAtMs },
  { name: 'attempt', type: 'integer', value: ({ attempt }) => attempt },
  { name: 'finished_at', type: 'timestamptz', value: ({ createdAtMs }) => createdAtMs },
  { name: 'status', type: 'integer', value: ({ status }) => status },
  { name: 'error', type: 'text', value: ({ error }) => error },
  { name: 'duration_ms', type: 'integer', value: ({ durationMs }) => Math.round(durationMs) },
  { name: 'answer', type: 'bytea', value: ({ answer }) => answer },
  ...ATTEMPT_PART_COLUMNS,
];

/**
 * `is not distinct from` keeps the planner from the partial index of leased deliveries. It would
 * compare each given delivery with all leased deliveries of the endpoint.
 */
const IS_LEASED = `q.endpoint_id = given.endpoint_id and q.message_id = given.message_id
   and q.lease_token is not distinct from given.token`;

/** The columns of an attempt that have the same name in `given`. */
const LOGGED_COLUMNS = [
  'attempt',
  'status',
  'error',
  'duration_ms',
  'answer',
  ...ATTEMPT_PART_COLUMNS.map(({ name }) => name),
];
const LOGGED = LOGGED_COLUMNS.join(', ');

const ATTEMPT_COLUMNS = ['finished_at', ...LOGGED_COLUMNS].map((name) => `given.${name}`).join(', ');

/** Returns the CTE `ended`: deliveries that leave the queue, with their attempts. */
const endedOf = (tenant: string) => `ended as (
  delete from webhook_queue q
   using given
   where q.tenant_id = ${tenant} and ${IS_LEASED}
  returning ${HISTORY_COLUMNS}, ${ATTEMPT_COLUMNS}, given.state,
            case when given.state = 'delivered' then q.first_failed_at
                 else coalesce(q.first_failed_at, given.finished_at) end as first_failed_at
), history as (${INSERT_ENDED})`;
/** Returns the CTE `ended`: deliveries of which only the attempt has ended, with their attempts. */
const retriedOf = (tenant: string) => `ended as (
  update webhook_queue q
     set due_at = given.due_at,
         lease_token = null,
         first_failed_at = coalesce(q.first_failed_at, given.finished_at)
    from given
   where q.tenant_id = ${tenant} and ${IS_LEASED}
  returning q.tenant_id, q.endpoint_id, q.message_id, q.ordering_key, ${ATTEMPT_COLUMNS}
)`;

async function record(
  client: Queryable,
  cteOf: (tenant: string) => string,
  results: readonly DeliveryResult[],
): Promise<readonly Recorded[]> {
  return await onShards(client, results, async (part, tenantOf) => {
    const { select, values } = unnestRows(COLUMNS, part);
    return await client.query<Recorded>(
      `with given as (${select}), ${cteOf(tenantOf('given', values))}, attempts as (
         insert into webhook_attempts
           (tenant_id, endpoint_id, message_id, created_at, ${LOGGED})
         select tenant_id, endpoint_id, message_id, finished_at, ${LOGGED}
           from ended
       )
       select ended.tenant_id as "tenantId", ended.endpoint_id as "endpointId", ended.message_id as "messageId",
              ended.ordering_key as "orderingKey",
              exists (select 1 from webhook_queue p
                       where p.tenant_id = ${tenantOf('ended', values)} and p.endpoint_id = ended.endpoint_id
                         and p.ordering_key = ended.ordering_key and p.parked) as parked
         from ended`,
      values,
    );
  });
}

/** A delivery that was claimed but not sent. */
export interface UnsentDelivery extends Leased {
  readonly dueAtMs: number;
}

/**
 * Gives deliveries back that were claimed but not sent: their attempt no longer counts. Runs under
 * the endpoints' locks.
 */
export async function giveBack(client: Queryable, deliveries: readonly UnsentDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await onShards(client, deliveries, async (part, tenantOf) => {
    const values = [...leasedColumns(part), part.map(({ dueAtMs }) => new Date(dueAtMs))];
    return await withoutAnswer(client).query(
      `update webhook_queue q
          set attempts = q.attempts - 1, lease_token = null, due_at = given.due_at
         from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])
                as given (tenant_id, endpoint_id, message_id, token, due_at)
        where q.tenant_id = ${tenantOf('given', values)} and ${IS_LEASED}`,
      values,
    );
  });
}

/** Extends the leases of deliveries in flight until `untilMs`. Runs under the endpoints' locks. */
export async function extendLeases(
  client: Queryable,
  deliveries: readonly Leased[],
  untilMs: number,
): Promise<void> {
  if (deliveries.length === 0) return;
  await onShards(client, deliveries, async (part, tenantOf) => {
    const values = [...leasedColumns(part), new Date(untilMs)];
    return await withoutAnswer(client).query(
      `update webhook_queue q
          set due_at = $5
         from unnest($1::text[], $2::text[], $3::text[], $4::text[])
                as given (tenant_id, endpoint_id, message_id, token)
        where q.tenant_id = ${tenantOf('given', values)} and ${IS_LEASED}`,
      values,
    );
  });
}

function leasedColumns(deliveries: readonly Leased[]): unknown[] {
  return [
    deliveries.map(({ tenantId }) => tenantId),
    deliveries.map(({ endpointId }) => endpointId),
    deliveries.map(({ messageId }) => messageId),
    deliveries.map(({ token }) => token),
  ];
}
