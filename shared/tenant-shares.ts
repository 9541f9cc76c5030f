import { Counts } from './counts.ts';

export interface TenantSharesOptions {
  /** Maximum that all tenants hold together: bytes, or items. */
  readonly max: number;
  /**
   * Whether a tenant that holds nothing may take all that is free, so that one large request can
   * succeed. Default false.
   */
  readonly firstTakesAll?: boolean;
}

/**
 * Divides a bounded amount (bytes, items) between tenants; never waits. No tenant may hold more than
 * it leaves free. A single tenant gets half; n tenants get a part of 1 / (n + 1) each. So neither
 * many nor slow requests of one tenant take the last part of other tenants.
 */
export class TenantShares {
  /** Maximum that all tenants hold together. */
  readonly max: number;
  private readonly firstTakesAll: boolean;
  private readonly shares = new Counts();

  constructor({ max, firstTakesAll = false }: TenantSharesOptions) {
    this.max = max;
    this.firstTakesAll = firstTakesAll;
  }

  /** Returns the amount that all tenants hold. */
  held(): number {
    return this.shares.total;
  }

  /** Takes an amount for a tenant. If too little is free, takes none and returns false. */
  take(tenantId: string, amount: number): boolean {
    const own = this.shares.of(tenantId);
    const free = this.max - this.shares.total - amount;
    const isFair = own + amount <= free || (this.firstTakesAll && own === 0);
    if (free < 0 || !isFair) return false;
    this.shares.add(tenantId, amount);
    return true;
  }

  /** Gives back an amount that was taken. */
  give(tenantId: string, amount: number): void {
    this.shares.remove(tenantId, amount);
  }
}
