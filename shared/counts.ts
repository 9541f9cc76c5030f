/** Counts per name, such as a tenant or an address, and their total. */
export class Counts {
  /** Without names whose count is 0. */
  private readonly counts = new Map<string, number>();
  private sum = 0;

  get total(): number {
    return this.sum;
  }

  of(name: string): number {
    return this.counts.get(name) ?? 0;
  }

  add(name: string, amount = 1): void {
    this.sum += amount;
    const count = this.of(name) + amount;
    if (count > 0) this.counts.set(name, count);
    else this.counts.delete(name);
  }

  remove(name: string, amount = 1): void {
    this.add(name, -amount);
  }
}
