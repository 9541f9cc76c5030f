import { AppError } from '../../errors.ts';
import { inTransaction, type Pool, type Queryable } from '../pool.ts';
import { SQLSTATE, sqlStateOf } from '../sqlstate.ts';
import { listTimePartitions, type Week } from '../time-partitions.ts';
import { epochMs, isoTime } from '../times.ts';
import { AGAIN, type ENDED_STATES } from './delivery.ts';
import { firstIdOf, ID_SKEW_MS } from './delivery-stream.ts';

export type EndedState = (typeof ENDED_STATES)[number];

/** The states that are sent again unless others are asked for: those without a success. */
export const RECOVERED_STATES: readonly EndedState[] = ['failed', 'dropped'];

/** A job that sends ended deliveries of an endpoint again. */
export interface Recovery {
  readonly tenantId: string;
  readonly jobId: string;
  readonly endpointId: string;
  readonly state: 'running' | 'completed' | 'cancelled' | 'failed';
  /** Why it makes no progress, or failed. */
  readonly reason: string | null;
  readonly fromMs: number;
  readonly toMs: number;
  readonly states: readonly string[];
  /** Null: not counted yet. */
  readonly total: number | null;
  readonly queued: number;
  readonly skipped: number;
  readonly createdAtMs: number;
  readonly createdBy: string | null;
  readonly finishedAtMs: number | null;
  /** When the endpoint was created: earlier deliveries never existed. */
  readonly endpointCreatedAtMs: number | null;
}

export interface NewRecovery {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly jobId: string;
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  readonly states: readonly EndedState[];
  readonly createdBy: string | null;
  readonly nowMs: number;
}

/** AppError codes of {@link createRecovery}: the endpoint does not exist, or cannot be recovered now. */
export const RECOVERY_ENDPOINT_UNKNOWN = 'ENDPOINT_UNKNOWN';
export const RECOVERY_REFUSED = 'RECOVERY_REFUSED';

/**
 * Starts a recovery, which the workers carry out. Throws AppError {@link RECOVERY_ENDPOINT_UNKNOWN}, or
 * {@link RECOVERY_REFUSED} while another recovery of the endpoint runs or the endpoint is disabled.
 */
export async function createRecovery(pool: Pool, recovery: NewRecovery): Promise<Recovery> {
  const { tenantId, endpointId, jobId, fromMs, toMs, states, createdBy, nowMs } = recovery;
  try {
    return await inTransaction(pool, async (db) => {
      const { rows } = await db.query<{ state: string }>(
        `select state from webhook_endpoints where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted' for share`,
        [tenantId, endpointId],
      );
      const state = rows[0]?.state;
      if (state === undefined) {
        throw new AppError(RECOVERY_ENDPOINT_UNKNOWN, `there is no webhook endpoint ${endpointId}`);
      }
      if (state === 'disabled') throw refused('the endpoint is disabled: enable the endpoint first');
      await db.query(
        `insert into webhook_recoveries
           (tenant_id, job_id, endpoint_id, state, from_at, to_at, states, step_at, created_at, created_by)
         values ($1, $2, $3, 'running', $4, $5, $6, $7, $7, $8)`,
        [
          tenantId,
          jobId,
          endpointId,
          isoTime(fromMs),
          isoTime(Math.min(toMs, nowMs)),
          states,
          isoTime(nowMs),
          createdBy,
        ],
      );
      return (await findRecoveries(db, [tenantId], jobId))[0]!;
    });
  } catch (error) {
    if (sqlStateOf(error) !== SQLSTATE.UNIQUE_VIOLATION) throw error;
    const running = await findRunning(pool, tenantId, endpointId);
    throw refused(`the recovery ${running ?? ''} of this endpoint runs: cancel it, or wait for its end`);
  }
}

function refused(reason: string): AppError {
  return new AppError(RECOVERY_REFUSED, reason);
}

async function findRunning(db: Queryable, tenantId: string, endpointId: string): Promise<string | undefined> {
  const { rows } = await db.query<{ jobId: string }>(
    `select job_id as "jobId" from webhook_recoveries
      where tenant_id = $1 and endpoint_id = $2 and state = 'running'`,
    [tenantId, endpointId],
  );
  return rows[0]?.jobId;
}

/** Resolves with the recoveries of this id; an id is that of one tenant. */
export async function findRecoveries(
  db: Queryable,
  tenantIds: readonly string[],
  jobId: string,
): Promise<Recovery[]> {
  const { rows } = await db.query<Recovery>(
    `${SELECT_RECOVERIES} where r.tenant_id = any($1::text[]) and r.job_id = $2`,
    [tenantIds, jobId],
  );
  return rows;
}

/** Resolves with the recoveries of tenants that were created before that of `after`, newest first. */
export async function listRecoveries(
  db: Queryable,
  tenantIds: readonly string[],
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<Recovery[]> {
  // Ids begin with their time.
  const { rows } = await db.query<Recovery>(
    `${SELECT_RECOVERIES}
      where r.tenant_id = any($1::text[]) and ($2::text is null or r.job_id < $2)
      order by r.job_id desc limit $3`,
    [tenantIds, after ?? null, limit],
  );
  return rows;
}

const SELECT_RECOVERIES = `select r.tenant_id as "tenantId", r.job_id as "jobId", r.endpoint_id as "endpointId", r.state,
         r.reason, ${epochMs('r.from_at')} as "fromMs", ${epochMs('r.to_at')} as "toMs", r.states,
         r.total::numeric, r.queued::numeric, r.skipped::numeric, ${epochMs('r.created_at')} as "createdAtMs",
         r.created_by as "createdBy", ${epochMs('r.finished_at')} as "finishedAtMs",
         ${epochMs('e.created_at')} as "endpointCreatedAtMs"
    from webhook_recoveries r
    left join webhook_endpoints e on e.tenant_id = r.tenant_id and e.endpoint_id = r.endpoint_id`;

/**
 * Cancels a recovery that runs, and resolves with it as it is then; undefined if there is none. What it
 * has queued is still sent.
 */
export async function cancelRecovery(
  pool: Pool,
  tenantId: string,
  jobId: string,
  nowMs: number,
): Promise<Recovery | undefined> {
  await pool.query(
    `update webhook_recoveries set state = 'cancelled', reason = null, finished_at = $3
      where tenant_id = $1 and job_id = $2 and state = 'running'`,
    [tenantId, jobId, isoTime(nowMs)],
  );
  return (await findRecoveries(pool, [tenantId], jobId))[0];
}

/** Returns the Mondays (UTC) of the weeks of a recovery that retention has dropped. */
function droppedWeeksOf({ fromMs, toMs, endpointCreatedAtMs }: Recovery, kept: readonly Week[]): string[] {
  const dropped: string[] = [];
  const startMs = Math.max(fromMs, endpointCreatedAtMs ?? fromMs);
  const oldest = kept.at(-1);
  if (!oldest) return dropped;
  // Weeks after the oldest one that is kept have a table if they have webhooks.
  for (let weekMs = oldest.fromMs - WEEK_MS; weekMs + WEEK_MS > startMs; weekMs -= WEEK_MS) {
    if (weekMs < toMs) dropped.unshift(isoTime(weekMs).slice(0, 10));
  }
  return dropped;
}

const WEEK_MS = 7 * 86_400_000;

/** Deliveries that are examined to count those that wait. */
export const WAITING_MAX = 10_000;

/**
 * Resolves with the number of deliveries in the range of a recovery that wait for an attempt, and were not
 * queued again, at most {@link WAITING_MAX}. They have not ended, so that the recovery leaves them out.
 */
async function countWaiting(
  db: Queryable,
  { tenantId, endpointId, fromMs, toMs }: Recovery,
): Promise<number> {
  const { rows } = await db.query<{ waiting: number }>(
    `select count(*)::integer as waiting
       from (select created_at, ordering_key, lease_token from webhook_queue
              where tenant_id = $1 and endpoint_id = $2 and message_id >= $3 and message_id < $4
              order by message_id
              limit ${WAITING_MAX}) as queued
      where created_at >= $5 and created_at < $6 and lease_token is null
        and not starts_with(coalesce(ordering_key, ''), $7)`,
    [
      tenantId,
      endpointId,
      firstIdOf(fromMs - ID_SKEW_MS),
      firstIdOf(toMs + ID_SKEW_MS),
      isoTime(fromMs),
      isoTime(toMs),
      AGAIN,
    ],
  );
  return rows[0]!.waiting;
}

/** Returns a recovery as the admin API and commands show it, with what waits. */
export async function describeRecovery(db: Queryable, recovery: Recovery) {
  const [described] = await describeRecoveries(db, [recovery]);
  return { ...described!, waiting: await countWaiting(db, recovery) };
}

/** Returns recoveries as lists show them. */
export async function describeRecoveries(db: Queryable, recoveries: readonly Recovery[]) {
  const kept = await listTimePartitions(db, 'webhook_messages');
  return recoveries.map((recovery) => ({
    jobId: recovery.jobId,
    kind: 'webhook-recovery',
    endpointId: recovery.endpointId,
    state: recovery.state,
    reason: recovery.reason,
    from: isoTime(recovery.fromMs),
    to: isoTime(recovery.toMs),
    states: recovery.states,
    total: recovery.total,
    queued: recovery.queued,
    skipped: recovery.skipped,
    progress: progressOf(recovery),
    droppedWeeks: droppedWeeksOf(recovery, kept),
    createdAt: isoTime(recovery.createdAtMs),
    createdBy: recovery.createdBy,
    finishedAt: recovery.finishedAtMs === null ? null : isoTime(recovery.finishedAtMs),
  }));
}

/** Returns how much is done, from 0 to 1. */
function progressOf({ state, total, queued, skipped }: Recovery): number {
  if (state === 'completed') return 1;
  return total ? Math.min(1, Math.round((1000 * (queued + skipped)) / total) / 1000) : 0;
}
