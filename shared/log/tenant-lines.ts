/** What waits for the log, in a line a tenant. */
export interface TenantLines<T extends { readonly bytes: number }> {
  isEmpty(): boolean;
  /** Puts an item at the end of the tenant's line. */
  add(tenantId: string, item: T): void;
  /** Takes items off the heads of the lines, turn by turn, until one does not fit; asks `fits` once for each in that order. */
  take(fits: (item: T) => boolean): T[];
  /** Drops what need not wait any more. */
  drop(unwanted: (item: T) => boolean): void;
}

/** What a tenant may take in one turn while others wait, and the item that goes past it. */
const TURN_BYTES = 64 * 1024;

/**
 * Tenants take turns, so that the backlog of one costs another a turn and not the whole of it; a tenant's own items keep
 * their order. Who had a turn goes behind all others, also in what is taken next.
 */
export function createTenantLines<T extends { readonly bytes: number }>(): TenantLines<T> {
  /** None is empty; the one whose turn is next comes first. */
  const lines = new Map<string, T[]>();

  /** How many items of a line go in this turn, and whether one did not fit. */
  function measureTurn(line: readonly T[], fits: (item: T) => boolean): { count: number; full: boolean } {
    const bytesMax = lines.size === 1 ? Number.POSITIVE_INFINITY : TURN_BYTES;
    let count = 0;
    for (let bytes = 0; count < line.length && bytes < bytesMax; count++) {
      if (!fits(line[count]!)) return { count, full: true };
      bytes += line[count]!.bytes;
    }
    return { count, full: false };
  }

  return {
    isEmpty: () => lines.size === 0,
    add(tenantId, item) {
      const line = lines.get(tenantId);
      if (line) line.push(item);
      else lines.set(tenantId, [item]);
    },
    take(fits) {
      let taken: T[] = [];
      for (;;) {
        const [next] = lines;
        if (next === undefined) return taken;
        const [tenantId, line] = next;
        const { count, full } = measureTurn(line, fits);
        if (count > 0) {
          const turn = line.splice(0, count);
          taken = taken.length === 0 ? turn : taken.concat(turn);
          lines.delete(tenantId);
          if (line.length > 0) lines.set(tenantId, line);
        }
        if (full) return taken;
      }
    },
    drop(unwanted) {
      for (const [tenantId, line] of lines) {
        const left = line.filter((item) => !unwanted(item));
        if (left.length === 0) lines.delete(tenantId);
        else lines.set(tenantId, left);
      }
    },
  };
}
