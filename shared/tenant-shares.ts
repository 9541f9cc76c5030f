/** Options of {@link TenantShares}. */
export interface TenantSharesOptions {
  readonly bytesMax: number;
  /**
   * Whether a tenant that holds nothing may take all free bytes, so that one large request can
   * succeed. Default false.
   */
  readonly firstTakesAll?: boolean;
}

/**
 * Divides a bounded number of bytes between tenants; never waits. No tenant may hold more than it
 * leaves free. A single tenant gets half; n tenants get a part of 1 / (n + 1) each. So neither many
 * nor slow requests of one tenant take the last bytes of other tenants.
 */
export class TenantShares {
  private readonly bytesMax: number;
  private readonly firstTakesAll: boolean;
  private held = 0;
  /** Bytes by tenant, without tenants that hold none. */
  private readonly heldBy = new Map<string, number>();

  constructor({ bytesMax, firstTakesAll = false }: TenantSharesOptions) {
    this.bytesMax = bytesMax;
    this.firstTakesAll = firstTakesAll;
  }

  /** Returns the bytes that all tenants hold. */
  heldBytes(): number {
    return this.held;
  }

  /** Takes bytes for a tenant. If too few are free, takes none and returns false. */
  take(tenantId: string, bytes: number): boolean {
    const own = this.heldBy.get(tenantId) ?? 0;
    const free = this.bytesMax - this.held - bytes;
    const isFair = own + bytes <= free || (this.firstTakesAll && own === 0);
    if (free < 0 || !isFair) return false;
    this.add(tenantId, own, bytes);
    return true;
  }

  /** Gives back bytes that were taken. */
  give(tenantId: string, bytes: number): void {
    this.add(tenantId, this.heldBy.get(tenantId) ?? 0, -bytes);
  }

  private add(tenantId: string, own: number, bytes: number): void {
    this.held += bytes;
    if (own + bytes === 0) this.heldBy.delete(tenantId);
    else this.heldBy.set(tenantId, own + bytes);
  }
}
