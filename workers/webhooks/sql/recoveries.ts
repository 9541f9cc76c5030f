import { type Requeue, requeueDeliveries } from '../../../shared/postgres/deliveries/requeue.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import { epochMs, isoTime } from '../../../shared/postgres/times.ts';

export interface RecoveryId {
  readonly tenantId: string;
  readonly jobId: string;
}

/** A running recovery under the lock of its row, with the state of its endpoint. */
export interface LockedRecovery extends RecoveryId {
  readonly endpointId: string;
  readonly states: readonly string[];
  readonly fromMs: number;
  readonly toMs: number;
  /** The last delivery that was examined; null: none yet. */
  readonly cursorAtMs: number | null;
  readonly cursorId: string | null;
  readonly isCounted: boolean;
  readonly stepSize: number;
  /** Null: the endpoint has no row. */
  readonly endpointState: string | null;
  readonly endpointFailures: number;
  readonly pausedUntilMs: number | null;
}

/** Resolves with recoveries that have a step to do, the one that waits longest first. */
export async function findDueRecoveries(db: Queryable, nowMs: number, limit: number): Promise<RecoveryId[]> {
  const { rows } = await db.query<RecoveryId>(
    `select tenant_id as "tenantId", job_id as "jobId"
       from webhook_recoveries
      where state = 'running' and step_at <= $1
      order by step_at
      limit $2`,
    [isoTime(nowMs), limit],
  );
  return rows;
}

/** Locks a recovery; undefined if another process has it, or its step is not due any more. */
export async function lockRecovery(
  client: Queryable,
  { tenantId, jobId }: RecoveryId,
  nowMs: number,
): Promise<LockedRecovery | undefined> {
  const locked = await client.query<Omit<LockedRecovery, keyof EndpointOfRecovery>>(
    `select tenant_id as "tenantId", job_id as "jobId", endpoint_id as "endpointId", states,
            ${epochMs('from_at')} as "fromMs", ${epochMs('to_at')} as "toMs",
            ${epochMs('cursor_at')} as "cursorAtMs", cursor_id as "cursorId",
            total is not null as "isCounted", step_size as "stepSize"
       from webhook_recoveries
      where tenant_id = $1 and job_id = $2 and state = 'running' and step_at <= $3
        for update skip locked`,
    [tenantId, jobId, isoTime(nowMs)],
  );
  const recovery = locked.rows[0];
  if (!recovery) return undefined;
  // On Citus, a join of the sharded table would not lock the recovery.
  const { rows } = await client.query<EndpointOfRecovery>(
    `select state as "endpointState", failures as "endpointFailures", ${epochMs('paused_until')} as "pausedUntilMs"
       from webhook_endpoints where tenant_id = $1 and endpoint_id = $2`,
    [tenantId, recovery.endpointId],
  );
  return { ...recovery, ...(rows[0] ?? { endpointState: null, endpointFailures: 0, pausedUntilMs: null }) };
}

type EndpointOfRecovery = Pick<LockedRecovery, 'endpointState' | 'endpointFailures' | 'pausedUntilMs'>;

/** Resolves with the number of deliveries that a recovery is for. */
export async function countRecoverable(client: Queryable, recovery: LockedRecovery): Promise<number> {
  const { rows } = await client.query<{ total: number }>(
    `select count(*)::numeric as total from webhook_deliveries
      where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at < $4
        and state = any($5::text[])`,
    [
      recovery.tenantId,
      recovery.endpointId,
      isoTime(recovery.fromMs),
      isoTime(recovery.toMs),
      recovery.states,
    ],
  );
  return rows[0]!.total;
}

/** Returns whether a delivery of the endpoint has been due, but was not claimed, since `sinceMs`. */
export async function hasBacklog(
  client: Queryable,
  { tenantId, endpointId }: LockedRecovery,
  sinceMs: number,
): Promise<boolean> {
  const { rowCount } = await client.query(
    `select 1 from webhook_queue
      where tenant_id = $1 and endpoint_id = $2 and not parked and due_at <= $3
      limit 1`,
    [tenantId, endpointId, isoTime(sinceMs)],
  );
  return rowCount === 1;
}

/** A delivery that a step examined. */
export interface ExaminedDelivery {
  readonly createdAtMs: number;
  readonly messageId: string;
  /** Whether the recovery is for it. */
  readonly matches: boolean;
}

/** Deliveries that one step examines to find those that it queues. */
const EXAMINED_MAX = 5000;

/**
 * Examines the deliveries after the cursor, and resolves with those that the recovery is for, at most
 * `stepSize`. If none is left after them, `isLast` is true.
 */
export async function examineDeliveries(
  client: Queryable,
  recovery: LockedRecovery,
): Promise<{ readonly examined: readonly ExaminedDelivery[]; readonly isLast: boolean }> {
  const fromMs = recovery.cursorAtMs ?? recovery.fromMs;
  const { rows } = await client.query<ExaminedDelivery & { place: number }>(
    // Everything is sorted in the order of the primary key, so that the search ends with the last row
    // of the step.
    `select ${epochMs('created_at')} as "createdAtMs", message_id as "messageId", place,
            state = any($6::text[]) as matches
       from (select created_at, message_id, state,
                    row_number() over (order by created_at, message_id)::integer as place
               from (select created_at, message_id, state from webhook_deliveries
                      where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at < $4
                        and (created_at, message_id) > ($3, $5::text)
                      order by created_at, message_id
                      limit ${EXAMINED_MAX}) as searched) as placed
      where state = any($6::text[]) or place = ${EXAMINED_MAX}
      order by created_at, message_id
      limit $7`,
    [
      recovery.tenantId,
      recovery.endpointId,
      isoTime(fromMs),
      isoTime(recovery.toMs),
      recovery.cursorId ?? '',
      recovery.states,
      recovery.stepSize,
    ],
  );
  const isLast = rows.length < recovery.stepSize && rows.at(-1)?.place !== EXAMINED_MAX;
  return { examined: rows, isLast };
}

/** Queues deliveries of the recovery again, and resolves with their number. */
export async function queueAgain(
  client: Queryable,
  { tenantId, endpointId, states }: LockedRecovery,
  messages: Requeue['messages'],
  nowMs: number,
): Promise<number> {
  return await requeueDeliveries(client, { tenantId, endpointId, messages, states, nowMs });
}

/** What a step changes of a recovery. Undefined: unchanged. */
export interface RecoveryChange {
  readonly total?: number;
  readonly cursor?: { readonly createdAtMs: number; readonly messageId: string } | undefined;
  readonly queued?: number;
  readonly skipped?: number;
  readonly stepSize?: number;
  /** Why it makes no progress. Default: it does. */
  readonly reason?: string;
  readonly ended?: 'completed' | 'failed';
}

/** Stores a step of a recovery. Runs under the lock of its row. */
export async function storeStep(
  client: Queryable,
  { tenantId, jobId }: RecoveryId,
  change: RecoveryChange,
  times: { readonly nowMs: number; readonly nextStepAtMs: number },
): Promise<void> {
  const { total, cursor, queued = 0, skipped = 0, stepSize, reason, ended } = change;
  await client.query(
    `update webhook_recoveries
        set total = coalesce($3::bigint, total), cursor_at = coalesce($4::timestamptz, cursor_at),
            cursor_id = coalesce($5::text, cursor_id), queued = queued + $6::bigint, skipped = skipped + $7::bigint,
            step_size = coalesce($8::integer, step_size), reason = $9::text, step_at = $10::timestamptz,
            state = coalesce($11::text, state), finished_at = $12::timestamptz
      where tenant_id = $1 and job_id = $2`,
    [
      tenantId,
      jobId,
      total ?? null,
      cursor ? isoTime(cursor.createdAtMs) : null,
      cursor?.messageId ?? null,
      queued,
      skipped,
      stepSize ?? null,
      reason ?? null,
      isoTime(times.nextStepAtMs),
      ended ?? null,
      ended === undefined ? null : isoTime(times.nowMs),
    ],
  );
}

/** Deletes up to `limit` recoveries that ended before a time, and resolves with their number. */
export async function sweepRecoveries(db: Queryable, endedByMs: number, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from webhook_recoveries r
      using (select tenant_id, job_id from webhook_recoveries
              where state <> 'running' and finished_at <= $1
              order by finished_at limit $2) as old
      where r.tenant_id = old.tenant_id and r.job_id = old.job_id`,
    [isoTime(endedByMs), limit],
  );
  return rowCount ?? 0;
}
