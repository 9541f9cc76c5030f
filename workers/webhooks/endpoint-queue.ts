import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { Attempt, ClaimedDelivery } from './attempt.ts';
import type { Dispatched } from './dispatch.ts';
import { ReadAhead } from './read-ahead.ts';
import type { SlotUser } from './slots.ts';

/** A claimed delivery, and the function that frees its slot. */
interface Held {
  readonly delivery: ClaimedDelivery;
  readonly addedAtMs: number;
  readonly release: () => void;
}

/** What a dispatch records of an endpoint. */
export interface Unrecorded {
  readonly attempts: readonly Attempt[];
  /** Claimed deliveries to give back. */
  readonly unsent: readonly ClaimedDelivery[];
  /** Deliveries in flight whose leases are to be extended. */
  readonly slow: readonly ClaimedDelivery[];
}

/** Milliseconds within which claimed deliveries should be sent; bounds what is claimed ahead. */
const AHEAD_MS = 40;
/** Deliveries that are claimed ahead, as a multiple of the concurrency. */
const AHEAD_MAX = 7;
/** Milliseconds in the queue after which a claimed delivery that was not sent is given back. */
const UNSENT_MAX_MS = 1000;
/**
 * Milliseconds after the claim from which a delivery is not sent any more, because too little of
 * its lease is left. The transaction of the claim counts too.
 */
const CLAIM_MAX_MS = 3000;
/** Milliseconds in flight after which a delivery gets its full lease. */
const SLOW_MS = 1000;
/** Weight of the newest exchange in the average duration. */
const NEWEST_WEIGHT = 0.1;

/** The in-memory state of an endpoint in this dispatcher. */
export class EndpointQueue implements SlotUser {
  readonly id: EndpointId;
  readonly tenantId: string;
  readonly readAhead = new ReadAhead();
  /** Whether the last attempt failed, as of the last dispatch. */
  failing: boolean;
  /** Whether a hold may have lasted for the maximum time. */
  holdExpired = false;
  /** Maximum number of concurrent exchanges with the endpoint, as of the last dispatch. */
  concurrency: number;
  /** Whether other dispatchers had claimed deliveries of the endpoint at the last dispatch. */
  #shared = false;
  /** Whether the endpoint waits in the fair queue. */
  queued = false;
  /**
   * Whether a dispatch is in progress. A second one would only wait for the endpoint's row lock.
   */
  dispatching = false;
  /** Whether the endpoint waits before a failed dispatch is retried. */
  backingOff = false;
  /** Whether the last dispatch failed together with other endpoints. */
  alone = false;
  /** Consecutive dispatches that failed, or found the endpoint locked. */
  failures = 0;
  /** All claimed deliveries whose result is not stored, by message id. */
  readonly #held = new Map<string, Held>();
  /** Claimed deliveries to send. */
  #waiting: ClaimedDelivery[] = [];
  /** When the exchanges in flight began. */
  readonly #sending = new Map<ClaimedDelivery, number>();
  readonly #extended = new Set<ClaimedDelivery>();
  #attempts: Attempt[] = [];
  #unsent: ClaimedDelivery[] = [];
  #slow: ClaimedDelivery[] = [];
  /** Average milliseconds of an exchange. */
  #exchangeMs = AHEAD_MS;

  constructor(id: EndpointId, concurrency: number, failing: boolean) {
    this.id = id;
    this.tenantId = id.tenantId;
    this.concurrency = concurrency;
    this.failing = failing;
  }

  /** Number of claimed deliveries whose result is not stored; each holds a slot. */
  get held(): number {
    return this.#held.size;
  }

  /** Number of deliveries that the next dispatch records or gives back. */
  get unrecorded(): number {
    return this.#attempts.length + this.#unsent.length;
  }

  /** Whether a dispatch has something to store. */
  get hasResults(): boolean {
    return this.unrecorded > 0 || this.#slow.length > 0;
  }

  /** Number of deliveries that may be claimed before the exchanges in flight have ended. */
  get ahead(): number {
    if (this.failing || this.#shared) return 0;
    return Math.floor(this.concurrency * Math.min(AHEAD_MAX, AHEAD_MS / this.#exchangeMs));
  }

  /** Returns the number of deliveries that may be claimed. What is unrecorded counts as free. */
  get free(): number {
    return this.concurrency + this.ahead - this.held + this.unrecorded;
  }

  /** Returns whether the endpoint's state is no longer needed. */
  get idle(): boolean {
    return this.held === 0 && !this.queued && !this.dispatching && !this.backingOff;
  }

  /** Lets the next dispatch find out whether other dispatchers still have all exchanges. */
  tryAgain(): void {
    this.concurrency = Math.max(1, this.concurrency);
  }

  isClaimed(messageId: string): boolean {
    return this.#held.has(messageId);
  }

  /** Adds a claimed delivery, which is sent after those added before. */
  add(delivery: ClaimedDelivery, addedAtMs: number, release: () => void): void {
    this.#held.set(delivery.messageId, { delivery, addedAtMs, release });
    this.#waiting.push(delivery);
  }

  /** Returns the next delivery to send now; undefined if there is none, or too many are in flight. */
  takeToSend(nowMs: number): ClaimedDelivery | undefined {
    if (this.#sending.size >= Math.max(1, this.concurrency)) return undefined;
    this.#giveBackOld(nowMs);
    const delivery = this.#waiting.shift();
    if (delivery) this.#sending.set(delivery, nowMs);
    return delivery;
  }

  /** Records the end of an exchange. After a failure, what was not sent is given back. */
  finish(attempt: Attempt): void {
    this.#sending.delete(attempt.delivery);
    this.#extended.delete(attempt.delivery);
    this.#attempts.push(attempt);
    const tookMs = attempt.finishedAtMs - attempt.startedAtMs;
    this.#exchangeMs += NEWEST_WEIGHT * (tookMs - this.#exchangeMs);
    if (attempt.outcome.kind === 'failed') this.giveBackWaiting();
  }

  /** Gives back all claimed deliveries that were not sent. */
  giveBackWaiting(): void {
    this.#unsent.push(...this.#waiting);
    this.#waiting = [];
  }

  /** Gives back deliveries that waited too long, and extends the leases of slow exchanges. */
  checkLeases(nowMs: number): void {
    this.#giveBackOld(nowMs);
    for (const [delivery, startedMs] of this.#sending) {
      const sinceMs = nowMs - startedMs;
      if (sinceMs < SLOW_MS || this.#extended.has(delivery)) continue;
      this.#exchangeMs = Math.max(this.#exchangeMs, sinceMs);
      this.#extended.add(delivery);
      this.#slow.push(delivery);
    }
  }

  /** Removes and returns what the next dispatch records. */
  takeUnrecorded(): Unrecorded {
    const taken = { attempts: this.#attempts, unsent: this.#unsent, slow: this.#slow };
    this.#attempts = [];
    this.#unsent = [];
    this.#slow = [];
    return taken;
  }

  /** Returns to the queue what a failed dispatch did not record. */
  restore({ attempts, unsent, slow }: Unrecorded): void {
    this.#attempts.unshift(...attempts);
    this.#unsent.unshift(...unsent);
    this.#slow.unshift(...slow.filter((delivery) => this.#sending.has(delivery)));
  }

  /**
   * Records a dispatch. Frees the slots of deliveries whose result was stored, or that were given
   * back.
   */
  succeed(
    { attempts, unsent }: Unrecorded,
    { concurrency, shared, failing }: Pick<Dispatched, 'concurrency' | 'shared' | 'failing'>,
  ): void {
    this.failures = 0;
    this.alone = false;
    this.concurrency = concurrency;
    this.#shared = shared;
    this.failing = failing;
    for (const delivery of [...attempts.map((attempt) => attempt.delivery), ...unsent]) {
      this.#held.get(delivery.messageId)?.release();
      this.#held.delete(delivery.messageId);
    }
  }

  #giveBackOld(nowMs: number): void {
    const [oldest] = this.#waiting;
    if (!oldest) return;
    const { addedAtMs } = this.#held.get(oldest.messageId)!;
    const isOld = nowMs - addedAtMs > UNSENT_MAX_MS || nowMs - oldest.claimedAtMs > CLAIM_MAX_MS;
    if (isOld) this.giveBackWaiting();
  }
}
