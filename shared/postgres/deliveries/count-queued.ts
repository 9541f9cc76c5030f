import type { Queryable } from '../pool.ts';
import { epochMs, isoTime } from '../times.ts';
import { type Endpoint, type EndpointId, isPausedByOwner } from '../webhook-endpoints.ts';

/** Waiting webhooks that are counted, since an endpoint can have millions. */
export const QUEUED_COUNTED_MAX = 10_000;

interface Queued {
  readonly waiting: number;
  readonly inFlight: number;
  readonly nextAtMs: number | null;
}

/**
 * Resolves with the webhooks of an endpoint that have not ended, as the admin API and commands show them:
 * how many wait (at most {@link QUEUED_COUNTED_MAX} are counted) or are in flight, and when the next attempt
 * is due. Null: none is planned, as for a paused endpoint.
 */
export async function describeQueued(
  db: Queryable,
  endpoint: EndpointId & Pick<Endpoint, 'pausedUntilMs'>,
  nowMs: number,
) {
  const { tenantId, endpointId, pausedUntilMs } = endpoint;
  // While a webhook is leased, its due time is the end of the lease.
  const { rows } = await db.query<Queued>(
    `select (select count(*)::integer from (
               select 1 from webhook_queue q
                where q.tenant_id = $1 and q.endpoint_id = $2 and (q.lease_token is null or q.due_at <= $3)
                limit ${QUEUED_COUNTED_MAX}) as counted) as waiting,
            (select count(*)::integer from webhook_queue q
              where q.tenant_id = $1 and q.endpoint_id = $2 and q.lease_token is not null and q.due_at > $3) as "inFlight",
            (select ${epochMs('q.due_at')} from webhook_queue q
              where q.tenant_id = $1 and q.endpoint_id = $2 and not q.parked and (q.lease_token is null or q.due_at <= $3)
              order by q.due_at limit 1) as "nextAtMs"`,
    [tenantId, endpointId, isoTime(nowMs)],
  );
  const { waiting, inFlight, nextAtMs } = rows[0]!;
  const isNone = nextAtMs === null || isPausedByOwner(endpoint);
  const nextAttemptAt = isNone ? null : isoTime(Math.max(nextAtMs, pausedUntilMs ?? 0));
  return { waiting, inFlight, nextAttemptAt };
}
