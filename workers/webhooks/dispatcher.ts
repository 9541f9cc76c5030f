import { monotonicClock } from '../../shared/clock.ts';
import { errorCode, errorMessage } from '../../shared/errors.ts';
import { databaseRefusal } from '../../shared/postgres/refusals.ts';
import { type DueEndpoint, findDueEndpoints } from '../../shared/postgres/webhook-due-endpoints.ts';
import { createRateLimitedLog } from '../../shared/rate-limited-log.ts';
import { createAgent } from '../../shared/webhooks/connect.ts';
import { createResolve } from '../../shared/webhooks/resolve.ts';
import { createSend } from '../../shared/webhooks/send.ts';
import type { PreparedDelivery } from './attempt.ts';
import { Backfill } from './backfill.ts';
import { type Visit, visitEndpoint } from './dispatch.ts';
import { Lane } from './endpoint-queue.ts';
import { Turns } from './fair-queue.ts';
import type { Dispatcher, DispatcherOptions } from './options.ts';
import { HOLD_MS } from './schedule.ts';
import { Slots } from './slots.ts';
import { listenForDeliveries } from './sql/listen.ts';
import { findQueuedWeeks } from './sql/queued-weeks.ts';
import { createSweep } from './sweep.ts';

export type { Dispatcher, DispatcherOptions };

/** Transactions at once. */
const VISITS_MAX = 4;
/** Deliveries claimed for one endpoint at a time. */
const TURN_MAX = 16;
/** After a visit that found the endpoint locked, or failed: doubled each time up to the second. */
const REST_FIRST_MS = 25;
const REST_MAX_MS = 5000;
/** Beyond the exchanges' deadline, for recording when the service stops. */
const CLOSE_RECORD_MS = 5000;

/**
 * Sends due deliveries until closed. Any number of dispatchers may run on one database: they share out the work by the
 * locks of the endpoints' rows. A delivery is sent at least once: again, under the same id, when a dispatcher dies
 * between sending and recording.
 */
export function startDispatcher(options: DispatcherOptions): Dispatcher {
  const { pool, clock, logger, concurrency = 16, deadlineMs = 15_000, leaseMs = 30_000 } = options;
  const limited = createRateLimitedLog(logger);
  const agent = createAgent({
    allow: options.allow,
    resolve: options.resolve ?? createResolve(),
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
  // With the clock set back, neither leases nor waiting deliveries may last longer for it.
  const queueClock = monotonicClock(clock);
  const send = createSend({ agent, clock, queueClock, deadlineMs });
  const visitOptions = {
    ...options,
    clock: queueClock,
    concurrency,
    leaseMs,
    random: options.random ?? Math.random,
  };
  const slots = new Slots(options.exchangesMax ?? 256);
  const turns = new Turns<Lane>();
  const lanes = new Map<string, Lane>();
  const backfill = new Backfill(pool);
  let visits = 0;
  let closing = false;
  let closed = false;
  let visitProblem: string | undefined;
  let onQuiet: (() => void) | undefined;

  const sweep = createSweep({
    pollMs: options.pollMs ?? 1000,
    logger,
    async look() {
      const nowMs = queueClock.nowMs();
      const toBackfill = await backfill.look(nowMs);
      const due = await findDueEndpoints(pool, { nowMs, heldSinceMs: nowMs - HOLD_MS });
      if (closing) return;
      for (const endpoint of due) want(laneOf(endpoint));
      for (const id of toBackfill) want(laneOf({ id, failing: false }));
      pump();
    },
  });
  const listener = listenForDeliveries(pool, logger, sweep.wake);

  function laneOf({ id, failing }: DueEndpoint): Lane {
    const key = JSON.stringify([id.tenantId, id.endpointId]);
    const known = lanes.get(key);
    if (known) return known;
    const lane = new Lane(id, concurrency, failing);
    lanes.set(key, lane);
    return lane;
  }

  function want(lane: Lane): void {
    lane.wanted = true;
    turns.add(lane.tenantId, lane);
  }

  function claimable(lane: Lane): number {
    if (closing) return 0;
    return Math.min(TURN_MAX, lane.concurrency - lane.held + lane.finished.length, slots.free(lane));
  }

  function mayVisit(lane: Lane): boolean {
    if (lane.visiting || lane.resting) return false;
    return lane.finished.length > 0 || claimable(lane) > 0;
  }

  /** Starts as many visits as may run. */
  function pump(): void {
    while (visits < VISITS_MAX && !closed) {
      const lane = turns.take(mayVisit);
      if (!lane) break;
      lane.wanted = false;
      void visit(lane);
    }
    if (closing && slots.held === 0 && visits === 0) onQuiet?.();
  }

  async function visit(lane: Lane): Promise<void> {
    const finished = lane.finished;
    const releases = Array.from({ length: claimable(lane) }, () => slots.take(lane));
    lane.finished = [];
    lane.visiting = true;
    visits += 1;
    try {
      const attempts = finished.map(({ attempt }) => attempt);
      const created = backfill.neededFor(lane.id, queueClock.nowMs());
      const options = { ...visitOptions, backfill: created };
      const done = await visitEndpoint(options, lane.id, attempts, releases.length);
      if (!done) throw new EndpointLocked();
      if (created && !done.backfillLeft) backfill.finished(lane.id);
      visitProblem = undefined;
      lane.fruitless = 0;
      lane.held -= finished.length;
      for (const { release } of finished) release();
      follow(lane, done, releases);
    } catch (error) {
      lane.finished.unshift(...finished);
      await onFruitless(lane, error);
    } finally {
      for (const release of releases) release();
      lane.visiting = false;
      visits -= 1;
      if (lane.finished.length > 0) want(lane);
      if (lane.idle) forget(lane);
      pump();
    }
  }

  /** Starts the exchanges that a visit claimed; each takes one of `releases` with it. */
  function follow(lane: Lane, done: Visit, releases: (() => void)[]): void {
    lane.concurrency = done.concurrency;
    lane.failing = done.failing;
    for (const delivery of done.deliveries) {
      lane.held += 1;
      void exchange(lane, delivery, releases.pop()!);
    }
    if (done.more) want(lane);
    if (done.secretError !== undefined) {
      limited.error(
        { err: done.secretError, ...lane.id },
        'the signing secret of a webhook endpoint cannot be read',
      );
    }
  }

  async function exchange(lane: Lane, delivery: PreparedDelivery, release: () => void): Promise<void> {
    const attempt = { delivery, ...(await send(delivery)) };
    const { messageId, attempt: number } = delivery;
    logger.debug(
      { ...lane.id, messageId, attempt: number, outcome: attempt.outcome.kind },
      'webhook attempt',
    );
    lane.finished.push({ attempt, release });
    want(lane);
    pump();
  }

  /** Results wait in the lane until they can be recorded: their leases may outlive a database that is away. */
  async function onFruitless(lane: Lane, error: unknown): Promise<void> {
    if (!(error instanceof EndpointLocked)) {
      visitProblem = `webhook deliveries cannot be claimed or recorded: ${databaseRefusal(error) ?? errorMessage(error)}`;
      limited.warn(
        { err: error, ...lane.id },
        'webhook deliveries of an endpoint could not be claimed or recorded',
      );
      if (errorCode(error) === NO_PARTITION) await makePartitions(lane);
    }
    const restMs = Math.min(REST_FIRST_MS * 2 ** lane.fruitless, REST_MAX_MS);
    lane.fruitless += 1;
    lane.resting = true;
    setTimeout(() => {
      lane.resting = false;
      want(lane);
      pump();
    }, restMs);
  }

  async function makePartitions({ id }: Lane): Promise<void> {
    try {
      // Attempts are written to the present week, deliveries that ended to that in which they were created: a week that was
      // dropped since is made again for them.
      for (const createdMs of await findQueuedWeeks(pool, id)) await options.ensurePartitions(createdMs);
      await options.ensurePartitions(queueClock.nowMs());
    } catch (error) {
      logger.warn({ err: error }, 'time partitions of the webhook tables could not be made');
    }
  }

  function forget(lane: Lane): void {
    lanes.delete(JSON.stringify([lane.id.tenantId, lane.id.endpointId]));
  }

  /** Resolves once no exchange runs and every result is recorded. */
  function quiet(): Promise<void> {
    return new Promise((resolve) => {
      onQuiet = resolve;
      pump();
    });
  }

  return {
    problem: () => visitProblem ?? sweep.problem(),
    wake: sweep.wake,
    async close() {
      closing = true;
      await atMost(deadlineMs + CLOSE_RECORD_MS, [sweep.close(), listener.close(), quiet()]);
      closed = true;
      if (slots.held > 0) {
        logger.warn({ exchanges: slots.held }, 'webhook results were not recorded; they will be sent again');
      }
      await agent.destroy();
    },
  };
}

/** Waits for all, but not for longer than that. */
async function atMost(timeoutMs: number, work: readonly Promise<void>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([Promise.all(work), late]);
  clearTimeout(timer);
}

/** SQLSTATE check_violation: the row found no partition for its time. */
const NO_PARTITION = '23514';

/** Another dispatcher is busy with the endpoint, for as long as a transaction takes. */
class EndpointLocked extends Error {}
