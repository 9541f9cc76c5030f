import { sleep } from '../shared/async.ts';
import type { Clock } from '../shared/clock.ts';
import type { RetentionDays } from '../shared/config/retention.ts';
import type { Logger } from '../shared/logging.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { runRetention } from '../shared/postgres/retention/run-retention.ts';
import { ensureTimePartitions, TIME_PARTITIONED_TABLES } from '../shared/postgres/time-partitions.ts';
import { dayOf, earlierNow } from '../shared/postgres/times.ts';
import { compactDeltas } from './compact-deltas.ts';
import { classifyFault } from './consume/faults.ts';
import { foldDataQuality } from './fold-data-quality.ts';
import { sweepErasures } from './sql/credential-erasures.ts';
import { eraseExpiredCredentials } from './sql/credentials.ts';
import { sweepDataQuality } from './sql/data-quality.ts';
import { eraseExpiredInDeadLetters, sweepDeadLetters } from './sql/dead-letters.ts';
import { eraseEndpointSecrets } from './sql/endpoint-secrets.ts';
import { sweepErasedIds } from './sql/erased-ids.ts';
import { sweepEventKeys } from './sql/event-keys.ts';
import { sweepTenantUsage } from './sql/tenant-usage.ts';
import { sweepRecoveries } from './webhooks/sql/recoveries.ts';

export interface MaintenanceDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Maximum milliseconds for which submissions from before an erasure may still arrive with their
   * ciphertext.
   */
  readonly erasuresKeptMs: number;
  /**
   * Maximum milliseconds for which the log may still deliver a record that it accepted before its
   * id expired.
   */
  readonly expiredIdsKeptMs: number;
  /** How long erased ids are kept, in milliseconds. Default: for ever. */
  readonly erasedIdsKeptMs?: number;
  /** Default: everything is kept. */
  readonly retention?: RetentionDays;
  /** Milliseconds between two rounds. Default 60,000. */
  readonly intervalMs?: number;
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Partitions are created for this week and the next two. */
const PARTITIONS_AHEAD_MS = 14 * DAY_MS;
/** Days for which a tenant's counts of records are kept: at least the last month. */
const USAGE_DAYS = 35;
/** Days for which counts of data quality are kept: a year can be compared with the one before. */
const QUALITY_DAYS = 400;
/** Days for which ended recoveries of webhooks are kept. */
const RECOVERY_DAYS = 30;
/**
 * Maximum rows per statement, and maximum statements per round. The remaining rows wait for the
 * next round.
 */
const ROWS_MAX = 1000;
const STATEMENTS_MAX = 100;

/**
 * Creates time partitions ahead, deletes expired rows, and compacts deltas, immediately and then at
 * every interval. Any number of processes may run it concurrently.
 */
export function startMaintenance(deps: MaintenanceDeps): { close(): Promise<void> } {
  const stopped = new AbortController();
  // Retention is separate, because it waits for queries that read what it drops.
  const done = Promise.all([run(deps, stopped.signal), runDaily(deps, stopped.signal)]);
  return {
    async close() {
      stopped.abort();
      await done;
    },
  };
}

/** Runs the retention at the start, then daily, or after a minute if it failed. */
async function runDaily({ retention = {}, ...deps }: MaintenanceDeps, signal: AbortSignal): Promise<void> {
  if (Object.values(retention).every((days) => days === undefined)) return;
  while (!signal.aborted) {
    let waitMs = DAY_MS;
    try {
      const report = await runRetention({ ...deps, retention });
      const dropped = report?.dropped.map(({ partition }) => partition) ?? [];
      if (dropped.length > 0) deps.logger.info({ dropped }, 'time partitions dropped');
    } catch (error) {
      waitMs = MINUTE_MS;
      deps.logger.warn(
        { task: 'retention', reason: classifyFault(error).text },
        'maintenance failed, retrying',
      );
    }
    await sleep(waitMs, { signal, ref: false });
  }
}

async function run(deps: MaintenanceDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const [task, work] of Object.entries(TASKS)) {
      try {
        await work(deps, signal);
      } catch (error) {
        deps.logger.warn({ task, reason: classifyFault(error).text }, 'maintenance failed, retrying');
      }
    }
    await sleep(deps.intervalMs ?? MINUTE_MS, { signal, ref: false });
  }
}

type Task = (deps: MaintenanceDeps, signal: AbortSignal) => Promise<void>;

/**
 * Returns a task that deletes rows that expired `keptMs` ago according to the clocks of both this
 * process and the database.
 */
const sweep =
  (
    statement: (pool: Pool, expiredByMs: number, rowsMax: number) => Promise<number>,
    keptMs: (deps: MaintenanceDeps) => number,
  ): Task =>
  async (deps, signal) => {
    const expiredByMs = (await earlierNow(deps.pool, deps.clock)) - keptMs(deps);
    for (let i = 0; i < STATEMENTS_MAX && !signal.aborted; i++) {
      if ((await statement(deps.pool, expiredByMs, ROWS_MAX)) < ROWS_MAX) return;
    }
  };

const TASKS: Readonly<Record<string, Task>> = {
  'time partitions': (deps) => createPartitionsAhead(deps),
  'expired credentials': sweep(eraseExpiredCredentials, () => 0),
  'expired webhook secrets': sweep(eraseEndpointSecrets, () => 0),
  'dead letters': sweep(sweepDeadLetters, () => 0),
  'expired credentials of dead letters': sweep(eraseExpiredInDeadLetters, () => 0),
  'old erasures': sweep(sweepErasures, (deps) => deps.erasuresKeptMs),
  'old erased ids': sweep(sweepErasedIds, (deps) => deps.erasedIdsKeptMs ?? Number.POSITIVE_INFINITY),
  'expired ids': sweep(sweepEventKeys, (deps) => deps.expiredIdsKeptMs),
  'past usage': sweep(
    (pool, expiredByMs, rowsMax) => sweepTenantUsage(pool, dayOf(expiredByMs), rowsMax),
    () => USAGE_DAYS * DAY_MS,
  ),
  'ended recoveries': sweep(sweepRecoveries, () => RECOVERY_DAYS * DAY_MS),
  'deltas of messages': compactDeltas,
  'deltas of data quality': foldDataQuality,
  'past data quality': sweep(
    (pool, expiredByMs, rowsMax) => sweepDataQuality(pool, dayOf(expiredByMs), rowsMax),
    () => QUALITY_DAYS * DAY_MS,
  ),
};

/** Creates every table's partitions for this week and the next two. */
export async function createPartitionsAhead({
  pool,
  clock,
}: Pick<MaintenanceDeps, 'pool' | 'clock'>): Promise<void> {
  const nowMs = clock.nowMs();
  for (const table of TIME_PARTITIONED_TABLES) {
    await ensureTimePartitions(pool, table, nowMs, nowMs + PARTITIONS_AHEAD_MS);
  }
}
