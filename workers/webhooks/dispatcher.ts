import { backoffMs, settledWithDeadline } from '../../shared/async.ts';
import { monotonicClock } from '../../shared/clock.ts';
import { errorMessage } from '../../shared/errors.ts';
import { FairQueue } from '../../shared/fair-queue.ts';
import { databaseRefusal } from '../../shared/postgres/refusals.ts';
import { SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import { createRateLimitedLog, type RateLimitedLog } from '../../shared/rate-limited-log.ts';
import { createAgent, type WebhookAgent } from '../../shared/webhooks/connect.ts';
import { createResolve } from '../../shared/webhooks/resolve.ts';
import { createSend, type Send } from '../../shared/webhooks/send.ts';
import type { PreparedDelivery } from './attempt.ts';
import { Backfill } from './backfill.ts';
import { type DispatchContext, type Dispatched, dispatchEndpoint } from './dispatch.ts';
import { EndpointQueue } from './endpoint-queue.ts';
import type { Dispatcher, DispatcherOptions } from './options.ts';
import { Poller } from './poller.ts';
import { HOLD_MS } from './schedule.ts';
import { Slots } from './slots.ts';
import { type DueEndpoint, findDueEndpoints } from './sql/due-endpoints.ts';
import { DeliveryListener } from './sql/listen.ts';
import { findQueuedWeeks } from './sql/queue.ts';

export type { Dispatcher, DispatcherOptions };

/** Maximum number of concurrent dispatches, which are transactions. */
const DISPATCHES_MAX = 4;
/** Maximum number of deliveries claimed by one dispatch. */
const CLAIMED_MAX = 16;
/** The pauses before a dispatch is retried that failed, or found the endpoint locked. */
const BACKOFF = { minMs: 25, maxMs: 5000 };
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
 * Dispatches deliveries. A dispatch is one transaction for one endpoint, which records results and
 * claims deliveries (see dispatch.ts). Endpoints that may have work wait for a dispatch in the fair
 * queue. A claimed delivery holds a slot until its result is recorded.
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
  readonly #endpoints = new Map<string, EndpointQueue>();
  /** Endpoints that wait for a dispatch. */
  readonly #fairQueue = new FairQueue<EndpointQueue>();
  /** Number of dispatches in progress. */
  #dispatches = 0;
  #dispatchProblem: string | undefined;
  /**
   * Whether the dispatcher is closing. If so, no deliveries are claimed, but results are recorded.
   */
  #closing = false;
  #closed = false;
  #onDrained: (() => void) | undefined;

  constructor(options: DispatcherOptions) {
    const { pool, clock, logger, concurrency = 16, deadlineMs = 15_000, leaseMs = 30_000 } = options;
    this.#options = options;
    this.#deadlineMs = deadlineMs;
    // Setting back the clock must not extend leases and pauses between attempts.
    const queueClock = monotonicClock(clock);
    const random = options.random ?? Math.random;
    this.#context = { ...options, clock: queueClock, concurrency, leaseMs, random };
    this.#warnings = createRateLimitedLog(logger);
    this.#agent = createAgent({
      allow: options.allow,
      resolve: options.resolve ?? createResolve(),
      ...(options.ca === undefined ? {} : { ca: options.ca }),
    });
    this.#send = createSend({ agent: this.#agent, clock, queueClock, deadlineMs });
    this.#slots = new Slots(options.exchangesMax ?? 256);
    this.#backfill = new Backfill(pool);
    this.#poller = new Poller({ intervalMs: options.pollMs ?? 1000, logger, poll: () => this.#poll() });
    this.#listener = new DeliveryListener(pool, logger, () => this.#poller.wake());
  }

  problem(): string | undefined {
    return this.#dispatchProblem ?? this.#poller.problem;
  }

  async close(): Promise<void> {
    this.#closing = true;
    const closed = [this.#poller.close(), this.#listener.close(), this.#drain()];
    await settledWithDeadline(Promise.all(closed), this.#deadlineMs + CLOSE_RECORD_MS);
    this.#closed = true;
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
    for (const endpoint of due) this.#enqueue(this.#endpointQueueOf(endpoint));
    for (const id of toBackfill) this.#enqueue(this.#endpointQueueOf({ id, failing: false }));
    this.#startDispatches();
  }

  #endpointQueueOf({ id, failing }: DueEndpoint): EndpointQueue {
    const key = endpointKey(id);
    const known = this.#endpoints.get(key);
    if (known) return known;
    const endpoint = new EndpointQueue(id, this.#context.concurrency, failing);
    this.#endpoints.set(key, endpoint);
    return endpoint;
  }

  #enqueue(endpoint: EndpointQueue): void {
    endpoint.queued = true;
    this.#fairQueue.add(endpoint.tenantId, endpoint);
  }

  #startDispatches(): void {
    while (this.#dispatches < DISPATCHES_MAX && !this.#closed) {
      const endpoint = this.#fairQueue.take((candidate) => this.#isReady(candidate));
      if (!endpoint) break;
      endpoint.queued = false;
      void this.#dispatch(endpoint);
    }
    if (this.#closing && this.#slots.held === 0 && this.#dispatches === 0) this.#onDrained?.();
  }

  #isReady(endpoint: EndpointQueue): boolean {
    if (endpoint.dispatching || endpoint.backingOff) return false;
    return endpoint.unrecorded.length > 0 || this.#claimMax(endpoint) > 0;
  }

  /** Returns the number of deliveries that the next dispatch may claim. */
  #claimMax(endpoint: EndpointQueue): number {
    if (this.#closing) return 0;
    return Math.min(CLAIMED_MAX, endpoint.free, this.#slots.free(endpoint));
  }

  /** Records the endpoint's results, claims its due deliveries and starts sending them. */
  async #dispatch(endpoint: EndpointQueue): Promise<void> {
    const recorded = endpoint.unrecorded;
    const releases = Array.from({ length: this.#claimMax(endpoint) }, () => this.#slots.take(endpoint));
    endpoint.unrecorded = [];
    endpoint.dispatching = true;
    this.#dispatches += 1;
    try {
      const backfill = this.#backfill.neededFor(endpoint.id, this.#context.clock.nowMs());
      const dispatched = await dispatchEndpoint(this.#context, endpoint.id, {
        attempts: recorded.map(({ attempt }) => attempt),
        limit: releases.length,
        backfill,
      });
      if (!dispatched) throw new EndpointLocked();
      if (backfill && !dispatched.backfillLeft) this.#backfill.finish(endpoint.id);
      this.#dispatchProblem = undefined;
      endpoint.failures = 0;
      endpoint.held -= recorded.length;
      for (const { release } of recorded) release();
      this.#sendClaimed(endpoint, dispatched, releases);
    } catch (error) {
      // Results stay in memory until they can be recorded; their leases may expire meanwhile.
      endpoint.unrecorded.unshift(...recorded);
      await this.#retryLater(endpoint, error);
    } finally {
      for (const release of releases) release();
      endpoint.dispatching = false;
      this.#dispatches -= 1;
      if (endpoint.unrecorded.length > 0) this.#enqueue(endpoint);
      if (endpoint.idle) this.#endpoints.delete(endpointKey(endpoint.id));
      this.#startDispatches();
    }
  }

  /**
   * Starts an exchange per claimed delivery. Each exchange gets one of `releases`, which frees its
   * slot.
   */
  #sendClaimed(endpoint: EndpointQueue, dispatched: Dispatched, releases: (() => void)[]): void {
    endpoint.concurrency = dispatched.concurrency;
    endpoint.failing = dispatched.failing;
    for (const delivery of dispatched.deliveries) {
      endpoint.held += 1;
      void this.#sendDelivery(endpoint, delivery, releases.pop()!);
    }
    if (dispatched.more) this.#enqueue(endpoint);
    if (dispatched.secretError !== undefined) {
      this.#warnings.error(
        { err: dispatched.secretError, ...endpoint.id },
        'webhook signing secret unreadable',
      );
    }
  }

  async #sendDelivery(
    endpoint: EndpointQueue,
    delivery: PreparedDelivery,
    release: () => void,
  ): Promise<void> {
    const attempt = { delivery, ...(await this.#send(delivery)) };
    const { messageId, attempt: number } = delivery;
    this.#options.logger.debug(
      { ...endpoint.id, messageId, attempt: number, outcome: attempt.outcome.kind },
      'webhook attempt finished',
    );
    endpoint.unrecorded.push({ attempt, release });
    this.#enqueue(endpoint);
    this.#startDispatches();
  }

  /**
   * Queues the endpoint again after a backoff. Creates time partitions first if one was missing.
   */
  async #retryLater(endpoint: EndpointQueue, error: unknown): Promise<void> {
    if (!(error instanceof EndpointLocked)) {
      this.#dispatchProblem = `webhook deliveries cannot be claimed or recorded: ${databaseRefusal(error) ?? errorMessage(error)}`;
      this.#warnings.warn({ err: error, ...endpoint.id }, 'webhook dispatch failed, retrying');
      if (sqlStateOf(error) === SQLSTATE.CHECK_VIOLATION) await this.#createPartitions(endpoint);
    }
    endpoint.failures += 1;
    endpoint.backingOff = true;
    setTimeout(
      () => {
        endpoint.backingOff = false;
        this.#enqueue(endpoint);
        this.#startDispatches();
      },
      backoffMs(endpoint.failures, BACKOFF),
    );
  }

  async #createPartitions({ id }: EndpointQueue): Promise<void> {
    const { pool, logger, ensurePartitions } = this.#options;
    try {
      // A finished delivery is stored in the week of its creation, whose partition may have been
      // dropped meanwhile.
      for (const createdMs of await findQueuedWeeks(pool, id)) await ensurePartitions(createdMs);
      // Attempts are stored in the current week.
      await ensurePartitions(this.#context.clock.nowMs());
    } catch (error) {
      logger.warn({ err: error }, 'webhook time partitions not created');
    }
  }

  /** Resolves once no exchange is in flight and every result is recorded. */
  #drain(): Promise<void> {
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      this.#startDispatches();
    });
  }
}

function endpointKey({ tenantId, endpointId }: DueEndpoint['id']): string {
  return JSON.stringify([tenantId, endpointId]);
}

/**
 * Thrown if another dispatcher holds the lock of the endpoint's row, which lasts for one
 * transaction.
 */
class EndpointLocked extends Error {}
