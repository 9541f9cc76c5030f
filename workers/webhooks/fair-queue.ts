/**
 * Whose turn it is: tenants one after the other, and within each its items one after the other. An item stands in the
 * line once, however often it is added.
 */
export class Turns<Item> {
  /** In the order of the turns; a tenant without items is not there. */
  readonly #byTenant = new Map<string, Set<Item>>();

  add(tenantId: string, item: Item): void {
    const items = this.#byTenant.get(tenantId);
    if (items) items.add(item);
    else this.#byTenant.set(tenantId, new Set([item]));
  }

  /** Takes the first item that `may` goes, looking at each once; those passed over keep their place. */
  take(may: (item: Item) => boolean): Item | undefined {
    for (const [tenantId, items] of this.#byTenant) {
      for (const item of items) {
        if (!may(item)) continue;
        items.delete(item);
        // The tenant goes to the end of the line.
        this.#byTenant.delete(tenantId);
        if (items.size > 0) this.#byTenant.set(tenantId, items);
        return item;
      }
    }
    return undefined;
  }
}
