import type { MemoryShare } from './publish-memory.ts';

/** What waits for the log: a tenant's own in order, tenants in turn. */
export interface TenantLines<T extends WaitingItem> {
  isEmpty(): boolean;
  add(item: T): void;
  /** Takes what goes next, up to `bytesMax`; the first one also where it is larger, unless `itemsMin` is 0. */
  take(bytesMax: number, itemsMin?: 0 | 1): T[];
  /** Drops what need not wait any more. */
  drop(unwanted: (item: T) => boolean): void;
}

export interface WaitingItem {
  readonly share: MemoryShare;
  readonly bytes: number;
}

/** What a tenant may take in one turn while others wait, and the item that goes past it. */
const TURN_BYTES = 64 * 1024;

/**
 * Where all that waits goes at once, as nearly always, there is nothing to be fair about. Otherwise tenants take turns, so
 * that the backlog of one costs another a turn and not the whole of it. Who had a turn goes behind all others, also in what
 * is taken next.
 */
export function createTenantLines<T extends WaitingItem>(): TenantLines<T> {
  /** All that waits, while there are no lines. */
  let items: T[] = [];
  let waitingBytes = 0;
  /** By tenant; none is empty; the one whose turn is next comes first. */
  const lines = new Map<string, T[]>();

  function addToLine(item: T): void {
    const { tenantId } = item.share;
    const line = lines.get(tenantId);
    if (line) line.push(item);
    else lines.set(tenantId, [item]);
  }

  function takeAll(): T[] {
    const all = items;
    items = [];
    waitingBytes = 0;
    return all;
  }

  function takeTurns(bytesMax: number, itemsMin: number): T[] {
    let taken: T[] = [];
    let bytes = 0;
    for (const [tenantId, line] of lines) {
      const turnEnd = lines.size === 1 ? bytesMax : bytes + TURN_BYTES;
      let count = 0;
      let full = false;
      while (count < line.length && (bytes < turnEnd || taken.length + count < itemsMin) && !full) {
        const next = bytes + line[count]!.bytes;
        if (next > bytesMax && taken.length + count >= itemsMin) full = true;
        else {
          bytes = next;
          count += 1;
        }
      }
      if (count > 0) {
        lines.delete(tenantId);
        const turn = line.splice(0, count);
        // Behind all others, where this loop meets it again.
        if (line.length > 0) lines.set(tenantId, line);
        taken = taken.concat(turn);
      }
      if (full || bytes >= bytesMax) break;
    }
    waitingBytes -= bytes;
    return taken;
  }

  return {
    isEmpty: () => items.length === 0 && lines.size === 0,
    add(item) {
      waitingBytes += item.bytes;
      if (lines.size === 0) items.push(item);
      else addToLine(item);
    },
    take(bytesMax, itemsMin = 1) {
      if (lines.size === 0) {
        if (waitingBytes <= bytesMax) return takeAll();
        // They still wait, if in lines.
        items.forEach(addToLine);
        items = [];
      }
      return takeTurns(bytesMax, itemsMin);
    },
    drop(unwanted) {
      const left = [...items, ...[...lines.values()].flat()].filter((item) => !unwanted(item));
      lines.clear();
      items = left;
      waitingBytes = left.reduce((sum, item) => sum + item.bytes, 0);
    },
  };
}
