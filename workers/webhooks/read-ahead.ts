import type { DueDelivery } from './sql/queue.ts';

/** The last delivery of a page; the next page begins after it. */
export interface PageEnd {
  readonly dueAtMs: number;
  readonly seq: bigint;
}

const PAGE_MIN = 200;
/** Maximum deliveries per page. Also the number of deliveries after which held ones are parked. */
const PAGE_MAX = 1600;
/**
 * Milliseconds between the due time of a delivery, which is when its transaction began, and its
 * commit. One that commits later is found by the next poll.
 */
const LATE_MS = 300;
/** A page that was used up within this time is followed by one of twice the size. */
const PAGE_USED_UP_MS = 500;

/**
 * The due deliveries of an endpoint that were read but not claimed. Reading ahead writes nothing:
 * the claim checks that each delivery is still waiting. A delivery that is held by an earlier one
 * of its conversation waits here until the earlier one has ended, so that it need not be parked and
 * read again.
 */
export class ReadAhead {
  /** Deliveries that can be claimed. */
  #ready: DueDelivery[] = [];
  /** Deliveries that are held by the one before them, by conversation. */
  readonly #followers = new Map<string, DueDelivery[]>();
  /** The number of the last known delivery of each conversation. */
  readonly #last = new Map<string, bigint>();
  /** Ids of all deliveries that were read but not claimed. */
  readonly #ids = new Set<string>();
  #pageEnd: PageEnd | undefined;
  #pageSize = PAGE_MIN;
  #readAtMs = -Infinity;
  #exhausted = false;
  /** Whether the queue must be read from its start, although a page is being read. */
  #restarted = false;
  /** Whether a page is being read. */
  #isReading = false;
  /** Whether deliveries may have been added to the part of the queue that was read. */
  #hasLate = false;

  /** Number of deliveries that can be claimed. */
  get ready(): number {
    return this.#ready.length;
  }

  /** Whether the queue may have due deliveries that were not read. */
  get hasUnread(): boolean {
    return !this.#exhausted;
  }

  get pageEnd(): PageEnd | undefined {
    return this.#pageEnd;
  }

  /** Returns the size of the page that is read now: at most about one second of work. */
  beginPage(nowMs: number): number {
    this.#restarted = false;
    this.#isReading = true;
    const usedUp = nowMs - this.#readAtMs < PAGE_USED_UP_MS;
    this.#pageSize = usedUp ? Math.min(this.#pageSize * 2, PAGE_MAX) : PAGE_MIN;
    this.#readAtMs = nowMs;
    return this.#pageSize;
  }

  /**
   * Reads on because deliveries were added. Most are due after all that were read, but transactions
   * commit in another order than they begin.
   */
  continue(): void {
    if (this.#exhausted && !this.#isReading) this.#readLate();
    else this.#hasLate = true;
    this.#exhausted = false;
  }

  /** Reads the queue from its start again, for example because deliveries were given back. */
  restart(): void {
    this.#restarted = true;
    this.#hasLate = false;
    this.#exhausted = false;
    this.#pageEnd = undefined;
  }

  /** Forgets all deliveries that were read. */
  clear(): void {
    this.#ready = [];
    this.#followers.clear();
    this.#last.clear();
    this.#ids.clear();
    this.restart();
  }

  /**
   * Adds a page. Returns the deliveries that must be parked, because what holds them is not known
   * here. `isClaimed` returns whether this dispatcher has claimed the delivery.
   */
  add(page: readonly DueDelivery[], size: number, isClaimed: (messageId: string) => boolean): DueDelivery[] {
    const parked: DueDelivery[] = [];
    this.#isReading = false;
    for (const delivery of page) {
      if (this.#ids.has(delivery.messageId) || isClaimed(delivery.messageId)) continue;
      if (!this.#addOne(delivery)) parked.push(delivery);
    }
    if (this.#restarted) return parked;
    this.#pageEnd = page.at(-1) ?? this.#pageEnd;
    const isLast = page.length < size;
    this.#exhausted = isLast && !this.#hasLate;
    if (isLast && this.#hasLate) this.#readLate();
    return parked;
  }

  /** Moves back in the queue by the time that transactions take. */
  #readLate(): void {
    this.#hasLate = false;
    if (this.#ids.size === 0 || !this.#pageEnd) this.#pageEnd = undefined;
    else this.#pageEnd = { dueAtMs: this.#pageEnd.dueAtMs - LATE_MS, seq: 0n };
  }

  #addOne(delivery: DueDelivery): boolean {
    const { orderingKey: key, heldBy, released, messageId, seq } = delivery;
    if (key !== null && heldBy !== null && !released) {
      if (this.#last.get(key) !== heldBy || this.#ids.size >= PAGE_MAX) return false;
      const followers = this.#followers.get(key);
      if (followers) followers.push(delivery);
      else this.#followers.set(key, [delivery]);
    } else {
      this.#ready.push(delivery);
    }
    // Later ones may have to wait for several of a released conversation, so they are parked.
    if (key !== null && released) this.#last.delete(key);
    else if (key !== null) this.#last.set(key, seq);
    this.#ids.add(messageId);
    return true;
  }

  /** Removes and returns up to `count` deliveries that can be claimed, oldest first. */
  take(count: number): DueDelivery[] {
    const taken = this.#ready.splice(0, count);
    for (const { messageId } of taken) this.#ids.delete(messageId);
    return taken;
  }

  /**
   * Records that a claimed delivery has ended, so that the next one of its conversation can be
   * claimed; or that it has not, so that the later ones must be read again.
   */
  resolve({ orderingKey: key, seq }: DueDelivery, ended: boolean): void {
    if (key === null) return;
    const followers = this.#followers.get(key);
    if (ended && followers?.[0]?.heldBy === seq) {
      this.#ready.push(followers.shift()!);
      if (followers.length === 0) this.#followers.delete(key);
      return;
    }
    if (ended && this.#last.get(key) !== seq) return;
    for (const { messageId } of followers ?? []) this.#ids.delete(messageId);
    if (followers) this.restart();
    this.#followers.delete(key);
    this.#last.delete(key);
  }
}
