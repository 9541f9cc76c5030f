/** Something that holds a number of entries. */
export interface Holder {
  count: number;
}

/** Holders by how many entries they hold. Counts change by one, so that the next lower one is never searched for. */
export interface Ranking<T extends Holder> {
  /** Sets the holder's count; with the same count it goes to the end of those that hold as many. */
  move(holder: T, count: number): void;
  /** Of those that hold the most, the one that was moved longest ago. */
  first(): T | undefined;
}

export function createRanking<T extends Holder>(): Ranking<T> {
  const byCount = new Map<number, Set<T>>();
  let most = 0;

  return {
    move(holder, count) {
      const left = byCount.get(holder.count);
      left?.delete(holder);
      if (left?.size === 0) byCount.delete(holder.count);
      holder.count = count;
      if (count > 0) {
        const joined = byCount.get(count) ?? new Set();
        byCount.set(count, joined.add(holder));
      }
      if (count > most || !byCount.has(most)) most = count;
    },
    first: () => byCount.get(most)?.values().next().value,
  };
}
