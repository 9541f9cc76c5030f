import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../shared/clock.ts';
import type { Logger } from '../shared/logging.ts';
import { sweepErasures } from '../shared/postgres/credential-erasures.ts';
import { eraseExpiredInDeadLetters } from '../shared/postgres/dead-letter-credentials.ts';
import { sweepDeadLetters } from '../shared/postgres/dead-letters.ts';
import { earlierNow } from '../shared/postgres/earlier-now.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { dayOf, sweepTenantUsage } from '../shared/postgres/tenant-usage.ts';
import { ensureTimePartitions, TIME_PARTITIONED_TABLES } from '../shared/postgres/time-partitions.ts';
import { classifyFault } from './consume/faults.ts';
import { eraseExpiredCredentials } from './sql/credentials.ts';
import { sweepEventKeys } from './sql/event-keys.ts';

export interface MaintenanceDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long submissions from before an erasure may still come with their ciphertext, in milliseconds. */
  readonly erasuresKeptMs: number;
  /** How long the log may still give workers a record that it took before the time of its id was over, in milliseconds. */
  readonly expiredIdsKeptMs: number;
  /** Milliseconds between two rounds. Default 60,000. */
  readonly intervalMs?: number;
}

const DAY_MS = 86_400_000;
/** Partitions are made for this week and the next two. */
const PARTITIONS_AHEAD_MS = 14 * DAY_MS;
/** Days for which a tenant's count of records is kept: the last month can still be looked up. */
const USAGE_DAYS = 35;
/** Rows of one statement, and statements of one round: what is more waits for the next. */
const ROWS_MAX = 1000;
const STATEMENTS_MAX = 100;

/**
 * Keeps the tables in order, at once and then at every interval: time partitions ahead, ids, credentials and counts
 * whose time is over. Any number of processes may do it. The result ends it.
 */
export function startMaintenance(deps: MaintenanceDeps): { close(): Promise<void> } {
  const stopped = new AbortController();
  const done = run(deps, stopped.signal);
  return {
    async close() {
      stopped.abort();
      await done;
    },
  };
}

async function run(deps: MaintenanceDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const [task, work] of Object.entries(TASKS)) {
      try {
        await work(deps, signal);
      } catch (error) {
        deps.logger.warn(
          { task, reason: classifyFault(error).text },
          'maintenance failed and is tried again',
        );
      }
    }
    await delay(deps.intervalMs ?? 60_000, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

type Task = (deps: MaintenanceDeps, signal: AbortSignal) => Promise<void>;

/** Deletes what is over by the clocks of both this process and the database, as of `keptMs` ago. */
const sweep =
  (
    statement: (pool: Pool, overMs: number, rowsMax: number) => Promise<number>,
    keptMs: (deps: MaintenanceDeps) => number,
  ): Task =>
  async (deps, signal) => {
    const overMs = (await earlierNow(deps.pool, deps.clock)) - keptMs(deps);
    for (let i = 0; i < STATEMENTS_MAX && !signal.aborted; i++) {
      if ((await statement(deps.pool, overMs, ROWS_MAX)) < ROWS_MAX) return;
    }
  };

const TASKS: Readonly<Record<string, Task>> = {
  'time partitions': (deps) => makePartitionsAhead(deps),
  'expired credentials': sweep(eraseExpiredCredentials, () => 0),
  'dead letters': sweep(sweepDeadLetters, () => 0),
  'expired credentials of dead letters': sweep(eraseExpiredInDeadLetters, () => 0),
  'old erasures': sweep(sweepErasures, (deps) => deps.erasuresKeptMs),
  'expired ids': sweep(sweepEventKeys, (deps) => deps.expiredIdsKeptMs),
  'past usage': sweep(
    (pool, overMs, rowsMax) => sweepTenantUsage(pool, dayOf(overMs), rowsMax),
    () => USAGE_DAYS * DAY_MS,
  ),
};

/** Makes every table's partitions for this week and the next two. */
export async function makePartitionsAhead({
  pool,
  clock,
}: Pick<MaintenanceDeps, 'pool' | 'clock'>): Promise<void> {
  const nowMs = clock.nowMs();
  for (const table of TIME_PARTITIONED_TABLES) {
    await ensureTimePartitions(pool, table, nowMs, nowMs + PARTITIONS_AHEAD_MS);
  }
}
