/** A holder of a number of entries. */
export interface Holder {
  count: number;
}

/**
 * Ranks holders by their counts, which change by one at a time. All operations run in constant
 * time.
 */
export interface Ranking<T extends Holder> {
  /** Sets the holder's count, and moves it to the end of those with the same count. */
  move(holder: T, count: number): void;
  /**
   * Returns the holder with the highest count; among equal counts, the one that was moved the
   * longest time ago.
   */
  first(): T | undefined;
}

export function createRanking<T extends Holder>(): Ranking<T> {
  const byCount = new Map<number, Set<T>>();
  let most = 0;
  /** The last set that became empty. A holder that is alone takes its set along. */
  let empty: Set<T> | undefined;

  return {
    move(holder, count) {
      const left = byCount.get(holder.count);
      left?.delete(holder);
      if (left?.size === 0) {
        byCount.delete(holder.count);
        empty = left;
      }
      holder.count = count;
      if (count > 0) join(holder, count);
      if (count > most || !byCount.has(most)) most = count;
    },
    first: () => byCount.get(most)?.values().next().value,
  };

  function join(holder: T, count: number): void {
    let joined = byCount.get(count);
    if (!joined) {
      joined = empty ?? new Set();
      empty = undefined;
      byCount.set(count, joined);
    }
    joined.add(holder);
  }
}
