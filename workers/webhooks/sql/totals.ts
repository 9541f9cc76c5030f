import type { Queryable } from '../../../shared/postgres/pool.ts';
import { epochMs } from '../../../shared/postgres/times.ts';

/** Returns the number of queued deliveries, or `max` if there are more. */
export async function countQueued(db: Queryable, max: number): Promise<number> {
  const { rows } = await db.query<{ queued: number }>(
    'select count(*)::integer as queued from (select 1 from webhook_queue limit $1) as counted',
    [max],
  );
  return rows[0]!.queued;
}

/**
 * Returns since when the delivery that is due longest has been due, in milliseconds since the Unix
 * epoch, of the endpoints that delay nothing themselves: enabled, not paused, without a failure and
 * without a rate. Undefined: there is none.
 */
export async function oldestDueAtMs(db: Queryable, nowMs: number): Promise<number | undefined> {
  const { rows } = await db.query<{ dueAtMs: number | null }>(
    // One look-up in the index of due deliveries per endpoint.
    `select ${epochMs('min(first.due_at)')} as "dueAtMs"
       from (select (select min(q.due_at) from webhook_queue q
                      where q.tenant_id = e.tenant_id and q.endpoint_id = e.endpoint_id
                        and not q.parked) as due_at
               from webhook_endpoints e
              where e.state = 'enabled' and e.state <> 'deleted' and e.failures = 0
                and e.rate_per_second is null
                and (e.paused_until is null or e.paused_until <= $1)) as first`,
    [new Date(nowMs)],
  );
  const dueAtMs = rows[0]!.dueAtMs ?? Number.POSITIVE_INFINITY;
  return dueAtMs <= nowMs ? dueAtMs : undefined;
}

/** Numbers of endpoints by state, without deleted ones. */
export interface EndpointCounts {
  readonly healthy: number;
  readonly failing: number;
  readonly paused: number;
  readonly disabled: number;
}

export async function countEndpoints(db: Queryable, nowMs: number): Promise<EndpointCounts> {
  const { rows } = await db.query<EndpointCounts>(
    `select (count(*) filter (where state = 'disabled'))::integer as disabled,
            (count(*) filter (where is_active and is_paused))::integer as paused,
            (count(*) filter (where is_active and not is_paused and failures > 0))::integer as failing,
            (count(*) filter (where is_active and not is_paused and failures = 0))::integer as healthy
       from (select state, failures, state = 'enabled' as is_active,
                    paused_until is not null and paused_until > $1 as is_paused
               from webhook_endpoints
              where state <> 'deleted') as live`,
    [new Date(nowMs)],
  );
  return rows[0]!;
}

export async function countRunningRecoveries(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ running: number }>(
    `select count(*)::integer as running from webhook_recoveries where state = 'running'`,
  );
  return rows[0]!.running;
}
