import { sleep } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import {
  countRecoverable,
  examineDeliveries,
  findDueRecoveries,
  hasBacklog,
  type LockedRecovery,
  lockRecovery,
  queueAgain,
  type RecoveryChange,
  type RecoveryId,
  storeStep,
} from './sql/recoveries.ts';

export interface RecoveriesOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two searches while no recovery runs. Default 1000. */
  readonly pollMs?: number;
}

/** Milliseconds between two steps of a recovery. */
const STEP_MS = 50;
/** Milliseconds between two searches for steps, while a step was due within the last ones. */
const SEARCH_MS = 25;
const ACTIVE_MS = 500;
/**
 * Maximum deliveries per step: 400 per second of one endpoint. More delay the endpoints of others, and
 * a dispatch of 64 delays the next one.
 */
const STEP_SIZE_MAX = 20;
/**
 * Milliseconds for which a delivery of the endpoint may be due before it is claimed. If one waits
 * longer, the endpoint takes no more than it has, and the step queues nothing.
 */
const UNCLAIMED_MS = 40;
/** Milliseconds between two steps of a recovery whose endpoint fails, is paused or disabled. */
const WAIT_MS = 5000;
/** Maximum recoveries whose steps are done in one round. */
const RECOVERIES_MAX = 32;

/**
 * Carries out recoveries until closed. A step moves some deliveries to the queue and stores the cursor in
 * one transaction, so that a process that is killed repeats and leaves out nothing, and another process
 * continues. A step queues nothing while the endpoint has unclaimed deliveries, so that newer ones wait
 * for at most one step's deliveries, and the endpoint's own rate is kept.
 */
export function startRecoveries(options: RecoveriesOptions): { close(): Promise<void> } {
  const stopped = new AbortController();
  const done = run(options, stopped.signal);
  return {
    async close() {
      stopped.abort();
      await done;
    },
  };
}

async function run(options: RecoveriesOptions, signal: AbortSignal): Promise<void> {
  const { pool, clock, logger, pollMs = 1000 } = options;
  let activeUntilMs = 0;
  while (!signal.aborted) {
    const startedAtMs = performance.now();
    let workedMs = 0;
    try {
      const due = await findDueRecoveries(pool, clock.nowMs(), RECOVERIES_MAX);
      for (const id of due) {
        if (signal.aborted) return;
        await stepRecovery(options, id);
      }
      workedMs = performance.now() - startedAtMs;
      if (due.length > 0) activeUntilMs = performance.now() + ACTIVE_MS;
    } catch (error) {
      // The dispatcher reports a database that does not answer.
      logger.warn({ reason: errorMessage(error) }, 'webhook recovery step failed, retrying');
    }
    // Uses one connection for at most half of the time.
    const isActive = performance.now() < activeUntilMs;
    await sleep(isActive ? Math.max(SEARCH_MS, workedMs) : pollMs, { signal, ref: false });
  }
}

/** Does the next step of a recovery, unless another process has just done it. */
export async function stepRecovery(
  { pool, clock }: Pick<RecoveriesOptions, 'pool' | 'clock'>,
  id: RecoveryId,
): Promise<void> {
  await inTransaction(
    pool,
    async (client) => {
      const nowMs = clock.nowMs();
      const recovery = await lockRecovery(client, id, nowMs);
      if (!recovery) return;
      const { waitMs = STEP_MS, ...change } = await step(client, recovery, nowMs);
      await storeStep(client, id, change, { nowMs, nextStepAtMs: nowMs + waitMs });
    },
    { preferIndexes: true },
  );
}

type Step = RecoveryChange & { readonly waitMs?: number };

async function step(client: Queryable, recovery: LockedRecovery, nowMs: number): Promise<Step> {
  const { endpointState, endpointFailures, pausedUntilMs, isCounted, stepSize } = recovery;
  if (endpointState === null || endpointState === 'deleted') {
    return { ended: 'failed', reason: 'the endpoint was deleted' };
  }
  if (!isCounted) return { total: await countRecoverable(client, recovery), waitMs: 0 };
  if (endpointState === 'disabled') {
    return { reason: 'waits: the endpoint is disabled, enable it to continue', waitMs: WAIT_MS };
  }
  if (pausedUntilMs !== null && pausedUntilMs > nowMs) {
    return { reason: 'waits: the endpoint is paused', waitMs: WAIT_MS };
  }
  if (await hasBacklog(client, recovery, nowMs - UNCLAIMED_MS)) {
    return { stepSize: Math.max(1, Math.floor(stepSize / 2)) };
  }
  // After a failure, single deliveries find out whether the endpoint works again.
  if (endpointFailures > 0) {
    const one = await queueStep(client, { ...recovery, stepSize: 1 }, nowMs);
    return one.ended
      ? one
      : { ...one, reason: 'is slow: the last attempt at the endpoint failed', waitMs: WAIT_MS };
  }
  const queued = await queueStep(client, recovery, nowMs);
  return { ...queued, stepSize: Math.min(STEP_SIZE_MAX, stepSize * 2) };
}

async function queueStep(
  client: Queryable,
  recovery: LockedRecovery,
  nowMs: number,
): Promise<RecoveryChange> {
  const { examined, isLast } = await examineDeliveries(client, recovery);
  const messages = examined.filter(({ matches }) => matches);
  const queued = await queueAgain(client, recovery, messages, nowMs);
  return {
    cursor: examined.at(-1),
    queued,
    skipped: messages.length - queued,
    ...(isLast && { ended: 'completed' as const }),
  };
}
