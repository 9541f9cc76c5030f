/** Options of {@link TenantShares}. */
export interface TenantSharesOptions {
  readonly bytesMax: number;
  /**
   * Lets a tenant that holds nothing take all that is free, so that one large request can succeed.
   * Default false.
   */
  readonly firstTakesAll?: boolean;
}

/**
 * Divides a bounded number of bytes between tenants; never waits. No tenant may hold more than it
 * leaves free: one alone gets half, n of them get equal parts and leave one more of that size. So
 * neither a flood nor slow requests of one tenant take the last room of others.
 */
export class TenantShares {
  private readonly bytesMax: number;
  private readonly firstTakesAll: boolean;
  private held = 0;
  /** By tenant; only tenants that hold something. */
  private readonly heldBy = new Map<string, number>();

  constructor({ bytesMax, firstTakesAll = false }: TenantSharesOptions) {
    this.bytesMax = bytesMax;
    this.firstTakesAll = firstTakesAll;
  }

  /** Returns the bytes that all tenants hold. */
  heldBytes(): number {
    return this.held;
  }

  /** Takes bytes for a tenant; returns false, and takes none, where there is no room for them. */
  take(tenantId: string, bytes: number): boolean {
    const own = this.heldBy.get(tenantId) ?? 0;
    const free = this.bytesMax - this.held - bytes;
    const isFair = own + bytes <= free || (this.firstTakesAll && own === 0);
    if (free < 0 || !isFair) return false;
    this.add(tenantId, own, bytes);
    return true;
  }

  /** Gives bytes back that were taken. */
  give(tenantId: string, bytes: number): void {
    this.add(tenantId, this.heldBy.get(tenantId) ?? 0, -bytes);
  }

  private add(tenantId: string, own: number, bytes: number): void {
    this.held += bytes;
    if (own + bytes === 0) this.heldBy.delete(tenantId);
    else this.heldBy.set(tenantId, own + bytes);
  }
}
