/**
 * A queue that serves tenants round-robin, and each tenant's items in the order in which they were added. An item is queued
 * once, however often it is added.
 */
export class FairQueue<Item> {
  /** Tenants with items, in the order in which they are served next. */
  readonly #byTenant = new Map<string, Set<Item>>();

  add(tenantId: string, item: Item): void {
    const items = this.#byTenant.get(tenantId);
    if (items) items.add(item);
    else this.#byTenant.set(tenantId, new Set([item]));
  }

  /** Removes and returns the first item that is ready. Items that are not ready keep their place. */
  take(isReady: (item: Item) => boolean): Item | undefined {
    for (const [tenantId, items] of this.#byTenant) {
      for (const item of items) {
        if (!isReady(item)) continue;
        items.delete(item);
        // A served tenant moves to the back of the queue.
        this.#byTenant.delete(tenantId);
        if (items.size > 0) this.#byTenant.set(tenantId, items);
        return item;
      }
    }
    return undefined;
  }
}
