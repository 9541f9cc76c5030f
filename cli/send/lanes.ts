import { createHash } from 'node:crypto';

/** A record of one of the lanes. */
export interface LaneRecord {
  readonly number: number;
  readonly text: string;
  /** Records with the same entity keep their order. */
  readonly entity: string;
}

export interface LanesOptions<T extends LaneRecord> {
  /** Number of lanes, which is the maximum number of requests in flight. */
  readonly lanes: number;
  readonly batchRecordsMax: number;
  readonly batchBytesMax: number;
  /** Sends a batch. Resolves when all records of the batch are settled. */
  deliver(batch: readonly T[]): Promise<void>;
}

export interface Lanes<T extends LaneRecord> {
  /**
   * Adds a record. Resolves when there is room for another record. Rejects with the error of a
   * delivery.
   */
  add(record: T): Promise<void>;
  /** Sends the remaining records and resolves when all are settled. */
  flush(): Promise<void>;
  /** Returns the lowest number of a record that is not settled. */
  oldestPending(): number | undefined;
}

/** Batches that may wait in a lane while another one is in flight. */
const BATCHES_WAITING_MAX = 2;

/**
 * Sends requests concurrently and keeps the order of each entity. All records of an entity take the
 * same lane, and a lane has one request in flight at a time.
 */
export function createLanes<T extends LaneRecord>(options: LanesOptions<T>): Lanes<T> {
  const lanes = Array.from({ length: options.lanes }, () => new Lane(options));
  return {
    add: (record) => lanes[laneOf(record.entity, lanes.length)]!.add(record),
    async flush() {
      await Promise.all(lanes.map((lane) => lane.flush()));
    },
    oldestPending() {
      const pending = lanes.flatMap((lane) => lane.oldestPending() ?? []);
      return pending.length === 0 ? undefined : Math.min(...pending);
    },
  };
}

function laneOf(entity: string, lanes: number): number {
  return createHash('sha1').update(entity).digest().readUInt32BE(0) % lanes;
}

class Lane<T extends LaneRecord> implements Lanes<T> {
  readonly #options: LanesOptions<T>;
  #waiting: T[] = [];
  #waitingBytes = 0;
  #inFlight: readonly T[] = [];
  #running: Promise<void> | undefined;
  #isRunning = false;
  #failed: { readonly error: unknown } | undefined;
  #isFlushing = false;
  /** Wakes `add` when a batch is settled. */
  #roomMade: (() => void) | undefined;

  constructor(options: LanesOptions<T>) {
    this.#options = options;
  }

  async add(record: T): Promise<void> {
    this.#throwIfFailed();
    this.#waiting.push(record);
    this.#waitingBytes += record.text.length;
    if (this.#holds(1)) this.#start();
    while (!this.#failed && this.#holds(BATCHES_WAITING_MAX)) {
      await new Promise<void>((resolve) => {
        this.#roomMade = resolve;
      });
    }
    this.#throwIfFailed();
  }

  async flush(): Promise<void> {
    this.#isFlushing = true;
    this.#start();
    await this.#running;
    this.#throwIfFailed();
  }

  oldestPending(): number | undefined {
    return this.#inFlight[0]?.number ?? this.#waiting[0]?.number;
  }

  /** Returns whether at least this number of full batches is waiting. */
  #holds(batches: number): boolean {
    const { batchRecordsMax, batchBytesMax } = this.#options;
    return this.#waiting.length >= batchRecordsMax * batches || this.#waitingBytes >= batchBytesMax * batches;
  }

  #start(): void {
    if (!this.#isRunning) this.#running = this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      while (!this.#failed && this.#waiting.length > 0 && (this.#isFlushing || this.#holds(1))) {
        this.#inFlight = this.#takeBatch();
        await this.#options.deliver(this.#inFlight);
        this.#inFlight = [];
        this.#roomMade?.();
      }
    } catch (error) {
      this.#failed = { error };
    } finally {
      this.#isRunning = false;
      this.#roomMade?.();
    }
  }

  #takeBatch(): T[] {
    const { batchRecordsMax, batchBytesMax } = this.#options;
    let bytes = 0;
    let count = 0;
    for (const { text } of this.#waiting) {
      if (count > 0 && (count >= batchRecordsMax || bytes + text.length > batchBytesMax)) break;
      bytes += text.length;
      count += 1;
    }
    const batch = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.slice(count);
    this.#waitingBytes -= bytes;
    return batch;
  }

  #throwIfFailed(): void {
    if (this.#failed) throw this.#failed.error;
  }
}
