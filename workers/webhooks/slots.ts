import { Counts } from '../../shared/counts.ts';

/** An endpoint that requests exchanges. */
export interface SlotUser {
  readonly tenantId: string;
  /** Number of slots that the endpoint holds. */
  readonly held: number;
  /** Whether the endpoint's last attempt failed. */
  readonly failing: boolean;
}

/**
 * A semaphore for the concurrent exchanges of one dispatcher. Slow and dead endpoints hold slots
 * the longest, and without further limits would eventually hold all slots. Failing endpoints
 * together get half of the slots, and a tenant gets half. The last quarter is reserved for
 * endpoints that hold none.
 */
export class Slots {
  readonly #max: number;
  /** Slots that are held, by tenant. */
  readonly #slots = new Counts();
  #heldByFailing = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get held(): number {
    return this.#slots.total;
  }

  /**
   * Returns the number of slots that this endpoint can take now. `isAhead`: for deliveries that are
   * claimed before an exchange can begin. All claims ahead end at a quarter of the slots, so that
   * fast endpoints leave the rest to exchanges of others.
   */
  free(user: SlotUser, isAhead = false): number {
    const half = Math.ceil(this.#max / 2);
    const bounds = [this.#max - this.held, half - this.#slots.of(user.tenantId)];
    if (user.failing) bounds.push(half - this.#heldByFailing);
    if (isAhead) bounds.push(Math.floor(this.#max / 4) - this.held);
    const common = Math.floor((this.#max * 3) / 4) - this.held;
    bounds.push(user.held === 0 ? Math.max(common, 1) : common);
    return Math.max(0, Math.min(...bounds));
  }

  /**
   * Takes one slot; the caller has checked {@link free}. Returns the function that frees the slot,
   * to be called once.
   */
  take({ tenantId, failing }: SlotUser): () => void {
    this.#change(tenantId, failing, 1);
    return () => this.#change(tenantId, failing, -1);
  }

  #change(tenantId: string, failing: boolean, by: number): void {
    this.#slots.add(tenantId, by);
    if (failing) this.#heldByFailing += by;
  }
}
