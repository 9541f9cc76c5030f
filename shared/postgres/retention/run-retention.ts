import type { Clock } from '../../clock.ts';
import type { RetentionDays } from '../../config/retention.ts';
import { AppError } from '../../errors.ts';
import { tryAdvisoryLock } from '../advisory-lock.ts';
import { inTransaction, type Pool } from '../pool.ts';
import { SQLSTATE, sqlStateOf } from '../sqlstate.ts';
import { listTenants } from '../tenants.ts';
import { earlierNow } from '../times.ts';
import { cutoffMs, type ExpiredWeek, findExpiredWeeks } from './expired-weeks.ts';
import { FOLDED_HISTORIES, foldPartition } from './fold-history.ts';
import { deleteOldCredentials, deleteOldErasures } from './old-rows.ts';
import { copyBodies, hasWaiting } from './webhook-weeks.ts';

export interface RetentionDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly retention: RetentionDays;
  /**
   * Milliseconds to wait for queries that read a week. The week is then dropped by a later run. Default
   * 10,000, less than a process has to stop.
   */
  readonly detachTimeoutMs?: number;
  /** Called before each step; set in tests. */
  readonly onStep?: ((step: RetentionStep) => void | Promise<void>) | undefined;
}

/** The steps of each week, in order; tests stop at each step. */
export const RETENTION_STEPS = ['prepared', 'detached', 'dropped'] as const;

export type RetentionStep = (typeof RETENTION_STEPS)[number];

export interface RetentionReport {
  readonly dropped: readonly ExpiredWeek[];
  /** Weeks that could not be dropped yet. */
  readonly kept: readonly (ExpiredWeek & { readonly reason: string })[];
  /** Rows of credentials that were deleted. */
  readonly credentials: number;
}

/** Key of the advisory lock that admits one run at a time; an arbitrary number. */
const RETENTION_LOCK = 7_305_411_925;
/** A run waits for queries that read a week that it drops, perhaps for minutes. */
const RUN_TIMEOUT_MS = 6 * 3_600_000;
const DETACH_TIMEOUT_MS = 10_000;
const CITUS_LOCK_TIMEOUT_MS = 500;

/**
 * Drops the weeks of tables that are past their retention, and deletes the rows of old credentials.
 * What determines current values and states is folded into the bases of the entities before.
 * Neither writers nor readers wait for it: a week is detached before it is dropped. Resolves with
 * undefined, having done nothing, if another process is doing it. A run that was interrupted is
 * completed by the next one. Throws AppError `WEEK_IN_USE` (retryable).
 */
export async function runRetention(deps: RetentionDeps): Promise<RetentionReport | undefined> {
  const { pool } = deps;
  // The lock belongs to a transaction of its own, because a week cannot be detached in one.
  return await inTransaction(
    pool,
    async (holder) => ((await tryAdvisoryLock(holder, RETENTION_LOCK)) ? await run(deps) : undefined),
    { idleTimeoutMs: RUN_TIMEOUT_MS },
  );
}

async function run(deps: RetentionDeps): Promise<RetentionReport> {
  const { pool, clock, retention, onStep } = deps;
  const nowMs = await earlierNow(pool, clock);
  const tenantIds = (await listTenants(pool)).map(({ tenantId }) => tenantId);
  const dropped: ExpiredWeek[] = [];
  const kept: (ExpiredWeek & { reason: string })[] = [];
  const busyWeeks = new Set<number>();
  // Deliveries come before messages, whose bodies the waiting ones need.
  for (const week of byNeed(await findExpiredWeeks(pool, retention, nowMs))) {
    if (week.table === 'webhook_deliveries' && (await hasWaiting(pool, week.partition)))
      busyWeeks.add(week.fromMs);
    if (week.table.startsWith('webhook_') && busyWeeks.has(week.fromMs)) {
      kept.push({ ...week, reason: 'deliveries of an earlier release wait in it' });
      continue;
    }
    await prepare(pool, week, tenantIds);
    await onStep?.('prepared');
    await detach(pool, week, deps.detachTimeoutMs ?? DETACH_TIMEOUT_MS);
    await onStep?.('detached');
    await pool.query(`drop table if exists ${week.partition}`);
    await onStep?.('dropped');
    dropped.push(week);
  }
  const acceptedBeforeMs = cutoffMs(retention, 'credentials', nowMs);
  const credentials = acceptedBeforeMs === undefined ? 0 : await deleteOldCredentials(pool, acceptedBeforeMs);
  const auditBeforeMs = cutoffMs(retention, 'audit', nowMs);
  if (auditBeforeMs !== undefined) await deleteOldErasures(pool, auditBeforeMs);
  return { dropped, kept, credentials };
}

function byNeed(weeks: readonly ExpiredWeek[]): ExpiredWeek[] {
  const rank = ({ table }: ExpiredWeek) => Number(table === 'webhook_messages');
  return [...weeks].sort((a, b) => rank(a) - rank(b));
}

/** Saves what is still needed of a week. */
async function prepare(pool: Pool, week: ExpiredWeek, tenantIds: readonly string[]): Promise<void> {
  const { table, partition } = week;
  const history = FOLDED_HISTORIES[table];
  if (history) await foldPartition(pool, history, partition, tenantIds);
  if (table === 'webhook_messages') await copyBodies(pool, partition, week, tenantIds);
}

/**
 * Detaches a week, outside of a transaction, so that writers of the table do not wait. Citus cannot do
 * that: there, they wait for the detaching, which waits for queries only briefly.
 */
async function detach(
  pool: Pool,
  { table, partition, state }: ExpiredWeek,
  timeoutMs: number,
): Promise<void> {
  if (state === 'detached') return;
  const how = state === 'detaching' ? 'finalize' : 'concurrently';
  const endMs = performance.now() + timeoutMs;
  const text = `alter table ${table} detach partition ${partition}`;
  try {
    if (pool.isCitus) {
      await inTransaction(pool, (client) => client.query(text), { lockTimeoutMs: CITUS_LOCK_TIMEOUT_MS });
    } else await pool.query({ text: `${text} ${how}`, query_timeout: timeoutMs });
  } catch (error) {
    if (performance.now() < endMs && sqlStateOf(error) !== SQLSTATE.LOCK_NOT_AVAILABLE) throw error;
    throw new AppError(
      'WEEK_IN_USE',
      `a query reads ${partition}: it is dropped after that, by another run`,
      {
        retryable: true,
        cause: error,
      },
    );
  }
}
