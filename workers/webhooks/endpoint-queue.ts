import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { Attempt, ClaimedDelivery } from './attempt.ts';
import type { Dispatched } from './dispatch.ts';
import { Pace } from './pace.ts';
import { ReadAhead } from './read-ahead.ts';
import type { EndpointSlots } from './slots.ts';

/** Slots and claims of a dispatch. */
interface Allowance {
  readonly exchanges: number;
  readonly ahead: number;
  /** Maximum number of deliveries to claim. */
  readonly limit: number;
}

/** What a dispatch records of an endpoint. */
export interface Unrecorded {
  readonly attempts: readonly Attempt[];
  /** Claimed deliveries to give back. */
  readonly unsent: readonly ClaimedDelivery[];
  /** Deliveries in flight whose leases are to be extended. */
  readonly slow: readonly ClaimedDelivery[];
}

/**
 * Milliseconds within which claimed deliveries should be sent; bounds what is claimed ahead. Several
 * times as long as a dispatch of hundreds of deliveries takes.
 */
const AHEAD_MS = 150;
/** Deliveries that are claimed ahead, as a multiple of the exchanges. */
const AHEAD_MAX = 16;
/** Bytes of the bodies that are claimed ahead. */
const AHEAD_BYTES = 4 * 1024 * 1024;
/** Assumed average bytes of a body before any is known. */
const BODY_BYTES = 16 * 1024;
/** Milliseconds in the queue after which a claimed delivery that was not sent is given back. */
const UNSENT_MAX_MS = 1000;
/** Milliseconds in flight after which a delivery gets its full lease. */
const SLOW_MS = 1000;
/** Weight of the newest exchange in the averages. */
const NEWEST_WEIGHT = 0.1;

/** The in-memory state of an endpoint in this dispatcher. */
export class EndpointQueue {
  readonly id: EndpointId;
  readonly readAhead = new ReadAhead();
  readonly #slots: EndpointSlots;
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
  /** Whether the endpoint's rate permits no claims now. */
  throttled = false;
  /** Whether a timer waits for the time of the next delivery. */
  timed = false;
  readonly #pace = new Pace();
  /** Consecutive dispatches that failed, or found the endpoint locked. */
  failures = 0;
  /** When the claimed deliveries whose result is not stored were added, by message id. */
  readonly #held = new Map<string, number>();
  /** Exchanges that the endpoint may have after the dispatch in progress. */
  #exchanges = 0;
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
  /** Average bytes of a body. */
  #bodyBytes = BODY_BYTES;

  constructor(id: EndpointId, concurrency: number, slots: EndpointSlots) {
    this.id = id;
    this.concurrency = concurrency;
    this.#slots = slots;
  }

  get tenantId(): string {
    return this.id.tenantId;
  }

  /** Whether the last attempt failed, as of the last dispatch. */
  get failing(): boolean {
    return this.#slots.failing;
  }

  /** Number of claimed deliveries whose result is not stored. */
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

  /** Number of deliveries that the next dispatch may claim. */
  get claimable(): number {
    return this.throttled ? 0 : this.#allowance().limit;
  }

  /** Returns whether the endpoint's state is no longer needed. */
  get idle(): boolean {
    return this.held === 0 && !this.queued && !this.dispatching && !this.backingOff && !this.throttled;
  }

  /** Lets the next dispatch find out whether other dispatchers still have all exchanges. */
  tryAgain(): void {
    this.concurrency = Math.max(1, this.concurrency);
  }

  isClaimed(messageId: string): boolean {
    return this.#held.has(messageId);
  }

  /**
   * Takes slots for a dispatch that records everything unrecorded. Without `mayClaim`, it only keeps
   * those of other claimed deliveries.
   */
  reserve({ mayClaim }: { readonly mayClaim: boolean }): Allowance {
    const allowance = this.#allowance();
    this.#exchanges = allowance.exchanges;
    if (!mayClaim || this.throttled) return { ...allowance, limit: 0 };
    const { exchanges, ahead } = this.#slots;
    this.#slots.hold(Math.max(exchanges, allowance.exchanges), Math.max(ahead, allowance.ahead));
    return allowance;
  }

  /** Frees the slots that are not needed after a dispatch. */
  releaseUnneeded(): void {
    const exchanges = Math.min(this.held, this.#exchanges);
    this.#slots.hold(exchanges, this.held - exchanges);
  }

  /** Adds a claimed delivery, which is sent after those added before. */
  add(delivery: ClaimedDelivery, addedAtMs: number): void {
    this.#held.set(delivery.messageId, addedAtMs);
    this.#waiting.push(delivery);
    this.#bodyBytes += NEWEST_WEIGHT * (delivery.body.length - this.#bodyBytes);
  }

  /** Returns the next delivery to send now; undefined if there is none, or too many are in flight. */
  takeToSend(nowMs: number): ClaimedDelivery | undefined {
    const max = Math.min(this.concurrency, this.#slots.exchanges);
    if (this.#sending.size >= Math.max(1, max)) return undefined;
    this.#giveBackOld(nowMs);
    if ((this.nextSendAtMs ?? Number.POSITIVE_INFINITY) > nowMs) return undefined;
    const delivery = this.#waiting.shift()!;
    this.#sending.set(delivery, nowMs);
    this.#pace.send(nowMs);
    return delivery;
  }

  /** Returns when the next delivery may be sent at the endpoint's rate; undefined if none waits. */
  get nextSendAtMs(): number | undefined {
    return this.#waiting[0] && this.#pace.sendAtMs(this.#waiting[0]);
  }

  /**
   * Records the end of an exchange. After a failure, what was not sent is given back, and little is
   * claimed ahead at first.
   */
  finish(attempt: Attempt): void {
    this.#sending.delete(attempt.delivery);
    this.#extended.delete(attempt.delivery);
    this.#attempts.push(attempt);
    const tookMs = attempt.finishedAtMs - attempt.startedAtMs;
    this.#exchangeMs += NEWEST_WEIGHT * (tookMs - this.#exchangeMs);
    if (attempt.outcome.kind === 'failed') {
      this.#exchangeMs = Math.max(this.#exchangeMs, AHEAD_MS);
      this.giveBackWaiting();
    }
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
    this.releaseUnneeded();
  }

  /** Records a dispatch: its deliveries are no longer claimed. */
  succeed(
    { attempts, unsent }: Unrecorded,
    {
      concurrency,
      shared,
      failing,
      ratePerSecond,
    }: Pick<Dispatched, 'concurrency' | 'shared' | 'failing' | 'ratePerSecond'>,
  ): void {
    this.#pace.ratePerSecond = ratePerSecond;
    this.failures = 0;
    this.alone = false;
    this.concurrency = concurrency;
    this.#shared = shared;
    this.#slots.failing = failing;
    for (const { delivery } of attempts) this.#held.delete(delivery.messageId);
    for (const { messageId } of unsent) this.#held.delete(messageId);
  }

  /**
   * Returns what the next dispatch may have. It records results before it claims, so claims get the
   * slots of the results first.
   */
  #allowance(): Allowance {
    const kept = this.held - this.unrecorded;
    const exchanges = Math.max(
      this.#sending.size,
      Math.min(1, kept),
      this.#slots.exchangesMax(Math.min(this.concurrency, this.#pace.exchangesMax(this.#exchangeMs))),
    );
    const ahead = this.#slots.aheadMax(this.#aheadOf(exchanges));
    return { exchanges, ahead, limit: Math.max(0, exchanges + ahead - kept) };
  }

  /**
   * Returns how many deliveries may be claimed before one of these exchanges has ended. None while an
   * exchange is slow, because they would be given back again.
   */
  #aheadOf(exchanges: number): number {
    const isShared = this.#shared && this.#pace.ratePerSecond === null;
    if (this.failing || isShared || this.#extended.size > 0) return 0;
    const ofTime = exchanges * Math.min(AHEAD_MAX, AHEAD_MS / this.#exchangeMs);
    return Math.floor(Math.min(ofTime, AHEAD_BYTES / this.#bodyBytes));
  }

  #giveBackOld(nowMs: number): void {
    const [oldest] = this.#waiting;
    if (!oldest) return;
    const addedAtMs = this.#held.get(oldest.messageId)!;
    const isOld = nowMs - addedAtMs > UNSENT_MAX_MS || nowMs > oldest.sendUntilMs;
    if (isOld) this.giveBackWaiting();
  }
}
