/**
 * A queue that serves tenants round-robin, and each tenant's items in the order in which they were
 * added. An item is queued once, even if it is added repeatedly.
 */
export class FairQueue<Item> {
  /** Tenants with items, in the order in which they are served next. */
  private readonly byTenant = new Map<string, Set<Item>>();

  /** Returns the number of tenants with items. */
  get tenants(): number {
    return this.byTenant.size;
  }

  add(tenantId: string, item: Item): void {
    const items = this.byTenant.get(tenantId);
    if (items) items.add(item);
    else this.byTenant.set(tenantId, new Set([item]));
  }

  /**
   * Removes and returns the first item that is ready. Items that are not ready keep their place.
   */
  take(isReady: (item: Item) => boolean): Item | undefined {
    const [taken] = this.takeTurn((items) => {
      for (const item of items) if (isReady(item)) return [item];
      return [];
    });
    return taken;
  }

  /**
   * Serves the first tenant for which `choose` returns items. Removes and returns those items, and
   * moves the tenant to the back of the queue. Tenants that are skipped keep their place.
   */
  takeTurn(choose: (items: ReadonlySet<Item>) => readonly Item[]): readonly Item[] {
    for (const [tenantId, items] of this.byTenant) {
      const chosen = choose(items);
      if (chosen.length === 0) continue;
      for (const item of chosen) items.delete(item);
      this.byTenant.delete(tenantId);
      if (items.size > 0) this.byTenant.set(tenantId, items);
      return chosen;
    }
    return [];
  }

  /** Removes an item; does nothing if the item is not queued. */
  remove(tenantId: string, item: Item): void {
    const items = this.byTenant.get(tenantId);
    if (items?.delete(item) && items.size === 0) this.byTenant.delete(tenantId);
  }

  /** Removes and returns all items, grouped by tenant. */
  takeAll(): Item[] {
    const all = [...this.byTenant.values()].flatMap((items) => [...items]);
    this.byTenant.clear();
    return all;
  }
}
