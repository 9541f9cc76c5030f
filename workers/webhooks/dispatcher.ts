import { backoffMs, settledWithDeadline } from '../../shared/async.ts';
import { monotonicClock } from '../../shared/clock.ts';
import { errorCode, errorMessage } from '../../shared/errors.ts';
import { databaseRefusal } from '../../shared/postgres/refusals.ts';
import { CITUS_UNAVAILABLE, isReadOnly, SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import { createRateLimitedLog, type RateLimitedLog } from '../../shared/rate-limited-log.ts';
import type { WebhookAgent } from '../../shared/webhooks/connect.ts';
import { createSend, type Send } from '../../shared/webhooks/send.ts';
import type { ClaimedDelivery } from './attempt.ts';
import { Backfill } from './backfill.ts';
import { type DispatchContext, type Dispatched, EndpointLocked, type EndpointWork } from './dispatch.ts';
import { dispatchBySize } from './dispatch-by-size.ts';
import type { EndpointQueue } from './endpoint-queue.ts';
import { EndpointQueues } from './endpoint-queues.ts';
import { Gathering } from './gathering.ts';
import { createMissingPartitions } from './missing-partitions.ts';
import { agentOf, contextOf, type Dispatcher, type DispatcherOptions } from './options.ts';
import { Poller } from './poller.ts';
import { RateTimers } from './rate-timers.ts';
import { HOLD_MS } from './schedule.ts';
import { sendAttempt } from './send-attempt.ts';
import { Slots } from './slots.ts';
import { findDueEndpoints } from './sql/due-endpoints.ts';
import { DeliveryListener } from './sql/listen.ts';
import { type Task, TaskQueue, workOf } from './task-queue.ts';

export type { Dispatcher, DispatcherOptions };

/** Maximum number of concurrent dispatches, which are transactions. */
const DISPATCHES_MAX = 4;
/** The pauses before a failed dispatch is retried. */
const BACKOFF = { minMs: 25, maxMs: 5000 };
/** A lock lasts for one transaction, and leases may expire meanwhile. */
const LOCKED_BACKOFF = { minMs: 25, maxMs: 200 };
/** Milliseconds between two checks of leases. */
const CHECK_LEASES_MS = 1000;
/** Milliseconds for storing results at shutdown, after the deadline of exchanges. */
const CLOSE_RECORD_MS = 5000;

/**
 * Sends due deliveries until closed. Any number of dispatchers may run on one database: dispatchers
 * share the work by locking the rows of endpoints. Deliveries are sent at least once: if a
 * dispatcher dies between sending and recording, the delivery is sent again with the same id.
 */
export function startDispatcher(options: DispatcherOptions): Dispatcher {
  return new EndpointDispatcher(options);
}

/**
 * Dispatches deliveries. A dispatch is one transaction for some endpoints, which records results
 * and claims deliveries (see dispatch.ts). Endpoints that may have work wait for a dispatch in the
 * fair queue. A claimed delivery is counted in the slots until its result is recorded.
 */
class EndpointDispatcher implements Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #deadlineMs: number;
  readonly #context: DispatchContext;
  readonly #warnings: RateLimitedLog;
  readonly #agent: WebhookAgent;
  readonly #send: Send;
  readonly #poller: Poller;
  readonly #listener: DeliveryListener;
  readonly #backfill: Backfill;
  readonly #slots: Slots;
  readonly #rateTimers: RateTimers;
  readonly #leaseTimer: NodeJS.Timeout;
  readonly #endpoints: EndpointQueues;
  readonly #tasks = new TaskQueue();
  /** Number of dispatches in progress. */
  #dispatches = 0;
  readonly #gathering = new Gathering(() => this.#startDispatches());
  #dispatchProblem: string | undefined;
  /** Whether no deliveries are claimed any more. Results are still recorded. */
  #closing = false;
  #closed = false;
  #onDrained: (() => void) | undefined;

  constructor(options: DispatcherOptions) {
    const { pool, clock, logger, deadlineMs = 15_000 } = options;
    this.#options = options;
    this.#deadlineMs = deadlineMs;
    // Setting back the clock must not extend leases and pauses between attempts.
    const queueClock = monotonicClock(clock);
    this.#context = contextOf(options, queueClock);
    this.#warnings = createRateLimitedLog(logger);
    this.#agent = agentOf(options);
    this.#send = createSend({ agent: this.#agent, clock, queueClock, deadlineMs });
    this.#slots = new Slots(options.exchangesMax ?? 256);
    this.#endpoints = new EndpointQueues(this.#context.concurrency, this.#slots);
    this.#rateTimers = new RateTimers({
      clock: queueClock,
      onSend: (endpoint) => this.#sendAndDispatch(endpoint),
      onClaim: (endpoint) => this.#dispatchSoon(endpoint),
    });
    this.#backfill = new Backfill(pool);
    this.#poller = new Poller({ intervalMs: options.pollMs ?? 1000, logger, poll: () => this.#poll() });
    this.#listener = new DeliveryListener({
      pool,
      directUrl: options.directUrl,
      logger,
      onDeliveries: (endpoints) => this.#onDeliveries(endpoints),
    });
    this.#leaseTimer = setInterval(() => this.#checkLeases(), CHECK_LEASES_MS);
  }

  problem(): string | undefined {
    return this.#dispatchProblem ?? this.#poller.problem;
  }

  note(): string | undefined {
    return this.#listener.problem;
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#tasks.closing = true;
    for (const endpoint of this.#endpoints.values()) {
      endpoint.giveBackWaiting();
      if (endpoint.hasResults) this.#tasks.add(endpoint);
    }
    const closed = [this.#poller.close(), this.#listener.close(), this.#drain()];
    await settledWithDeadline(Promise.all(closed), this.#deadlineMs + CLOSE_RECORD_MS);
    this.#closed = true;
    clearInterval(this.#leaseTimer);
    if (this.#slots.held > 0) {
      this.#options.logger.warn(
        { exchanges: this.#slots.held },
        'webhook results not recorded, deliveries will be repeated',
      );
    }
    await this.#agent.destroy();
  }

  /** Queues the endpoints that have due deliveries. */
  async #poll(): Promise<void> {
    const nowMs = this.#context.clock.nowMs();
    const toBackfill = await this.#backfill.findEndpoints(nowMs);
    const due = await findDueEndpoints(this.#options.pool, { nowMs, heldSinceMs: nowMs - HOLD_MS });
    if (this.#closing) return;
    for (const endpoint of due) {
      const queue = this.#endpoints.of(endpoint.id, endpoint);
      queue.readAhead.restart();
      queue.tryAgain();
      queue.holdExpired ||= endpoint.holdExpired;
      this.#tasks.add(queue);
    }
    for (const id of toBackfill) this.#tasks.add(this.#endpoints.of(id, { failing: false }));
    this.#startDispatches();
  }

  /** Queues endpoints with new deliveries. */
  #onDeliveries(endpoints: readonly EndpointId[] | undefined): void {
    if (this.#closing) return;
    if (!endpoints) this.#poller.wake();
    for (const id of endpoints ?? []) {
      const queue = this.#endpoints.of(id, { failing: false });
      queue.readAhead.continue();
      this.#tasks.add(queue);
    }
    this.#startDispatches();
  }

  #startDispatches(): void {
    while (this.#dispatches < DISPATCHES_MAX && !this.#closed) {
      if (this.#gathering.delays({ dispatches: this.#dispatches, held: this.#slots.held })) break;
      const tasks = this.#tasks.take();
      if (tasks.length === 0) break;
      this.#gathering.start();
      void this.#dispatch(tasks);
    }
    if (this.#closing && this.#slots.held === 0 && this.#dispatches === 0) this.#onDrained?.();
  }

  /** Records the endpoints' results, claims their due deliveries and starts sending them. */
  async #dispatch(tasks: readonly Task[]): Promise<void> {
    this.#dispatches += 1;
    try {
      const nowMs = this.#context.clock.nowMs();
      const works = tasks.map((task) => workOf(task, this.#backfill.neededFor(task.endpoint.id, nowMs)));
      const dispatched = await dispatchBySize(this.#context, works);
      this.#dispatchProblem = undefined;
      for (const [index, task] of tasks.entries()) {
        const result = dispatched[index];
        if (result) this.#finishTask(task, works[index]!, result);
        else await this.#retryLater(task, new EndpointLocked());
      }
    } catch (error) {
      for (const task of tasks) await this.#retry(task, error, tasks.length > 1);
    } finally {
      for (const { endpoint } of tasks) {
        endpoint.dispatching = false;
        if (endpoint.hasResults) this.#tasks.add(endpoint);
        this.#endpoints.deleteIdle(endpoint);
      }
      this.#dispatches -= 1;
      this.#startDispatches();
    }
  }

  /** Starts sending the claimed deliveries. */
  #finishTask({ endpoint, unrecorded }: Task, work: EndpointWork, dispatched: Dispatched): void {
    if (work.backfill && !dispatched.backfillLeft) this.#backfill.finish(endpoint.id);
    endpoint.succeed(unrecorded, dispatched);
    const nowMs = this.#context.clock.nowMs();
    for (const delivery of dispatched.deliveries) endpoint.add(delivery, nowMs);
    endpoint.releaseUnneeded();
    if (this.#closing) endpoint.giveBackWaiting();
    this.#sendWaiting(endpoint);
    if (dispatched.throttledUntilMs !== undefined)
      this.#rateTimers.throttle(endpoint, dispatched.throttledUntilMs);
    if (dispatched.more) this.#tasks.add(endpoint);
    if (dispatched.secretError !== undefined) {
      this.#warnings.error(
        { err: dispatched.secretError, ...endpoint.id },
        'webhook signing secret unreadable',
      );
    }
  }

  #sendWaiting(endpoint: EndpointQueue): void {
    for (;;) {
      const delivery = endpoint.takeToSend(this.#context.clock.nowMs());
      if (!delivery) break;
      void this.#sendDelivery(endpoint, delivery);
    }
    if (endpoint.hasResults) this.#tasks.add(endpoint);
    this.#rateTimers.waitToSend(endpoint);
  }

  async #sendDelivery(endpoint: EndpointQueue, delivery: ClaimedDelivery): Promise<void> {
    const { attempt, line } = await sendAttempt(this.#send, endpoint.id, delivery);
    this.#options.logger.debug(line, 'webhook attempt finished');
    endpoint.finish(attempt);
    this.#sendAndDispatch(endpoint);
  }

  #dispatchSoon(endpoint: EndpointQueue): void {
    this.#tasks.add(endpoint);
    this.#startDispatches();
  }

  #sendAndDispatch(endpoint: EndpointQueue): void {
    this.#sendWaiting(endpoint);
    this.#startDispatches();
  }

  /** Gives back what was claimed but not sent in time, and extends leases of slow exchanges. */
  #checkLeases(): void {
    const nowMs = this.#context.clock.nowMs();
    for (const endpoint of this.#endpoints.values()) {
      endpoint.checkLeases(nowMs);
      if (endpoint.hasResults) this.#tasks.add(endpoint);
    }
    this.#startDispatches();
  }

  /** After a dispatch of several endpoints failed, retries each alone, as one may be the cause. */
  async #retry(task: Task, error: unknown, inCompany: boolean): Promise<void> {
    task.endpoint.readAhead.clear();
    if (!inCompany) return await this.#retryLater(task, error);
    // Results stay in memory until they can be recorded; their leases may expire meanwhile.
    task.endpoint.restore(task.unrecorded);
    task.endpoint.alone = true;
    this.#tasks.add(task.endpoint);
  }

  /** Queues the endpoint again after a backoff. Creates a missing time partition first. */
  async #retryLater({ endpoint, unrecorded }: Task, error: unknown): Promise<void> {
    endpoint.restore(unrecorded);
    if (!(error instanceof EndpointLocked)) {
      this.#dispatchProblem = `webhook deliveries cannot be claimed or recorded: ${databaseRefusal(error) ?? errorMessage(error)}`;
      this.#warnings.warn({ err: error, ...endpoint.id }, 'webhook dispatch failed, retrying');
      if (isReadOnly(error)) this.#listener.reconnect(error);
      // Citus reports a week without a partition as an internal error, if the rows are those of a query.
      if (sqlStateOf(error) === SQLSTATE.CHECK_VIOLATION || errorCode(error) === CITUS_UNAVAILABLE) {
        await createMissingPartitions(this.#options, endpoint.id, this.#context.clock.nowMs());
      }
    }
    endpoint.failures += 1;
    endpoint.backingOff = true;
    setTimeout(
      () => {
        endpoint.backingOff = false;
        this.#dispatchSoon(endpoint);
      },
      backoffMs(endpoint.failures, error instanceof EndpointLocked ? LOCKED_BACKOFF : BACKOFF),
    );
  }

  /** Resolves once no exchange is in flight and every result is recorded. */
  #drain(): Promise<void> {
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      this.#startDispatches();
    });
  }
}
