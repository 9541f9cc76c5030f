import { Counts } from '../../shared/counts.ts';

/** Deliveries that may be claimed ahead, as a multiple of the exchanges. */
const AHEAD_PER_EXCHANGE = 4;

/**
 * A semaphore for the concurrent exchanges of one dispatcher. Slow and dead endpoints hold slots
 * the longest, and without further limits would eventually hold all slots. Failing endpoints
 * together get half of the slots, and a tenant gets half. The last quarter is reserved for
 * endpoints that hold none.
 *
 * Deliveries that are claimed before an exchange can begin are counted separately, and take no slot
 * from exchanges of others.
 */
export class Slots {
  readonly #max: number;
  /** Exchanges by tenant, and all of failing endpoints. */
  readonly #exchanges = new Counts();
  #failingExchanges = 0;
  /** Deliveries that are claimed ahead, by tenant. */
  readonly #ahead = new Counts();

  constructor(max: number) {
    this.#max = max;
  }

  /** Number of claimed deliveries. */
  get held(): number {
    return this.#exchanges.total + this.#ahead.total;
  }

  /**
   * Returns the number of exchanges that an endpoint may have in addition to those that it has.
   * Negative if it must leave some to others when they end.
   */
  freeExchanges({ tenantId, exchanges, failing }: EndpointSlots): number {
    const half = Math.ceil(this.#max / 2);
    const held = this.#exchanges.total;
    const bounds = [this.#max - held, half - this.#exchanges.of(tenantId)];
    if (failing) bounds.push(half - this.#failingExchanges);
    const common = Math.floor((this.#max * 3) / 4) - held;
    bounds.push(exchanges === 0 ? Math.max(common, 1) : common);
    return Math.min(...bounds);
  }

  /**
   * Returns how many deliveries an endpoint may have claimed ahead: half of what is left, or what
   * its tenant's half allows. The more endpoints claim ahead, the less each of them may.
   */
  aheadMax({ tenantId, ahead }: EndpointSlots): number {
    const max = this.#max * AHEAD_PER_EXCHANGE;
    const ofTenant = max / 2 - this.#ahead.of(tenantId) + ahead;
    return Math.floor(Math.max(0, Math.min((max - this.#ahead.total) / 2, ofTenant)));
  }

  /** Counts a change of what an endpoint holds. */
  change({ tenantId, failing }: EndpointSlots, exchanges: number, ahead: number): void {
    this.#exchanges.add(tenantId, exchanges);
    this.#ahead.add(tenantId, ahead);
    if (failing) this.#failingExchanges += exchanges;
  }

  /** Counts exchanges of an endpoint that begins or ceases to fail. */
  changeFailing(exchanges: number): void {
    this.#failingExchanges += exchanges;
  }
}

/** The slots of one endpoint. */
export class EndpointSlots {
  readonly tenantId: string;
  readonly #slots: Slots;
  #exchanges = 0;
  #ahead = 0;
  #failing = false;

  constructor(slots: Slots, tenantId: string) {
    this.#slots = slots;
    this.tenantId = tenantId;
  }

  /** Number of exchanges that the endpoint may have concurrently. */
  get exchanges(): number {
    return this.#exchanges;
  }

  /** Number of deliveries that are claimed in addition to these exchanges. */
  get ahead(): number {
    return this.#ahead;
  }

  /** Whether the endpoint's last attempt failed. */
  get failing(): boolean {
    return this.#failing;
  }

  set failing(failing: boolean) {
    if (failing !== this.#failing) this.#slots.changeFailing(failing ? this.#exchanges : -this.#exchanges);
    this.#failing = failing;
  }

  /** Returns the number of exchanges that the endpoint may have from now on, at most `wanted`. */
  exchangesMax(wanted: number): number {
    return Math.min(wanted, Math.max(0, this.#exchanges + this.#slots.freeExchanges(this)));
  }

  /** Returns the number of deliveries that may be claimed ahead from now on, at most `wanted`. */
  aheadMax(wanted: number): number {
    return Math.min(wanted, this.#slots.aheadMax(this));
  }

  /** Holds exactly so many slots from now on. */
  hold(exchanges: number, ahead: number): void {
    this.#slots.change(this, exchanges - this.#exchanges, ahead - this.#ahead);
    this.#exchanges = exchanges;
    this.#ahead = ahead;
  }
}
