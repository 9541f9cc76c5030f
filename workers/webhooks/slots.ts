/** Who asks for exchanges. */
export interface SlotUser {
  readonly tenantId: string;
  /** Exchanges it holds now. */
  readonly held: number;
  /** Whether its endpoint's last attempt failed. */
  readonly failing: boolean;
}

/**
 * The exchanges that one dispatcher may have at once. Slow and dead endpoints hold theirs the longest, so that without
 * further bounds they would end up with all of them: failing endpoints together get half, one tenant gets half, and the
 * last quarter is for endpoints that have none.
 */
export class Slots {
  readonly #max: number;
  #held = 0;
  #heldByFailing = 0;
  readonly #heldByTenant = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  get held(): number {
    return this.#held;
  }

  /** How many this user could take now. */
  free(user: SlotUser): number {
    const half = Math.ceil(this.#max / 2);
    const bounds = [this.#max - this.#held, half - (this.#heldByTenant.get(user.tenantId) ?? 0)];
    if (user.failing) bounds.push(half - this.#heldByFailing);
    const common = Math.floor((this.#max * 3) / 4) - this.#held;
    bounds.push(user.held === 0 ? Math.max(common, 1) : common);
    return Math.max(0, Math.min(...bounds));
  }

  /** Takes one; the caller has asked {@link free}. Returns what gives it back, to be called once. */
  take({ tenantId, failing }: SlotUser): () => void {
    this.#change(tenantId, failing, 1);
    return () => this.#change(tenantId, failing, -1);
  }

  #change(tenantId: string, failing: boolean, by: number): void {
    this.#held += by;
    if (failing) this.#heldByFailing += by;
    const ofTenant = (this.#heldByTenant.get(tenantId) ?? 0) + by;
    if (ofTenant > 0) this.#heldByTenant.set(tenantId, ofTenant);
    else this.#heldByTenant.delete(tenantId);
  }
}
