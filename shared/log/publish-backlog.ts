import { FairQueue } from '../fair-queue.ts';

export interface WaitingItem {
  readonly tenantId: string;
  readonly bytes: number;
}

/**
 * Bytes that a tenant may publish per turn while others wait; the last item of a turn may exceed
 * them.
 */
const TURN_BYTES = 64 * 1024;

/**
 * A queue of items to publish. Tenants are served round-robin, and each tenant's items in order.
 * While all items fit into the next batch, which is the usual case, they keep the order of arrival.
 * Otherwise the backlog of one tenant delays other tenants by only one turn.
 */
export class PublishBacklog<T extends WaitingItem> {
  /** All items, in the order of arrival; empty while {@link queue} is used. */
  private items: T[] = [];
  private readonly queue = new FairQueue<T>();
  private waitingBytes = 0;

  isEmpty(): boolean {
    return this.items.length === 0 && this.queue.tenants === 0;
  }

  add(item: T): void {
    this.waitingBytes += item.bytes;
    if (this.queue.tenants === 0) this.items.push(item);
    else this.queue.add(item.tenantId, item);
  }

  /**
   * Removes and returns the next items, up to `bytesMax`; includes the first item even if it is
   * larger, unless `itemsMin` is 0.
   */
  take(bytesMax: number, itemsMin: 0 | 1 = 1): T[] {
    if (this.queue.tenants === 0) {
      if (this.waitingBytes <= bytesMax) return this.takeAll();
      for (const item of this.items) this.queue.add(item.tenantId, item);
      this.items = [];
    }
    return this.takeTurns(bytesMax, itemsMin);
  }

  /** Removes items that no longer need to be published. */
  drop(unwanted: (item: T) => boolean): void {
    this.items = [...this.items, ...this.queue.takeAll()].filter((item) => !unwanted(item));
    this.waitingBytes = this.items.reduce((sum, item) => sum + item.bytes, 0);
  }

  private takeAll(): T[] {
    const all = this.items;
    this.items = [];
    this.waitingBytes = 0;
    return all;
  }

  private takeTurns(bytesMax: number, itemsMin: number): T[] {
    let taken: T[] = [];
    let bytes = 0;
    /** Whether the next item does not fit. That item must be the first one of the next batch. */
    let isFull = false;
    const chooseTurn = (items: ReadonlySet<T>): T[] => {
      const turn: T[] = [];
      const turnEnd = this.queue.tenants === 1 ? bytesMax : bytes + TURN_BYTES;
      for (const item of items) {
        const isRequired = taken.length + turn.length < itemsMin;
        if (!isRequired && bytes >= turnEnd) break;
        isFull = !isRequired && bytes + item.bytes > bytesMax;
        if (isFull) break;
        bytes += item.bytes;
        turn.push(item);
      }
      return turn;
    };
    while (!isFull && bytes < Math.max(bytesMax, 1)) {
      const turn = this.queue.takeTurn((items) => (isFull ? [] : chooseTurn(items)));
      if (turn.length === 0) break;
      taken = taken.concat(turn);
    }
    this.waitingBytes -= bytes;
    return taken;
  }
}
