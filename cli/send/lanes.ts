import { createHash } from 'node:crypto';
import type { Prepared } from './prepare.ts';

export interface LanesOptions {
  /** Requests under way at most. */
  readonly lanes: number;
  readonly batchRecordsMax: number;
  readonly batchBytesMax: number;
  /** Resolves when every record of the batch is settled. */
  deliver(batch: readonly Prepared[]): Promise<void>;
}

export interface Lanes {
  /** Resolves once there is room for more. Rejects with what a delivery rejected with. */
  add(record: Prepared): Promise<void>;
  /** Sends what is left and resolves when all is settled. */
  flush(): Promise<void>;
  /** The lowest number of a record that is not settled. */
  oldestPending(): number | undefined;
}

/** Batches that may wait in a lane besides the one under way. */
const BATCHES_WAITING_MAX = 2;

/**
 * Parallel requests that keep the order of each entity: its records always take the same lane, and a lane has one
 * request under way at a time.
 */
export function createLanes(options: LanesOptions): Lanes {
  const lanes = Array.from({ length: options.lanes }, () => createLane(options));
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

function createLane({ batchRecordsMax, batchBytesMax, deliver }: LanesOptions): Lanes {
  let waiting: Prepared[] = [];
  let waitingBytes = 0;
  let underWay: readonly Prepared[] = [];
  let running: Promise<void> | undefined;
  let busy = false;
  let failed: { readonly error: unknown } | undefined;
  let flushing = false;
  let roomMade: (() => void) | undefined;

  const isFull = () => waiting.length >= batchRecordsMax || waitingBytes >= batchBytesMax;

  function start(): void {
    if (!busy) running = run();
  }

  async function run(): Promise<void> {
    busy = true;
    try {
      while (!failed && waiting.length > 0 && (flushing || isFull())) {
        underWay = takeBatch();
        await deliver(underWay);
        underWay = [];
        roomMade?.();
      }
    } catch (error) {
      failed = { error };
    } finally {
      busy = false;
      roomMade?.();
    }
  }

  function takeBatch(): Prepared[] {
    let bytes = 0;
    let count = 0;
    for (const { text } of waiting) {
      if (count > 0 && (count >= batchRecordsMax || bytes + text.length > batchBytesMax)) break;
      bytes += text.length;
      count += 1;
    }
    const batch = waiting.slice(0, count);
    waiting = waiting.slice(count);
    waitingBytes -= bytes;
    return batch;
  }

  const throwIfFailed = () => {
    if (failed) throw failed.error;
  };

  return {
    async add(record) {
      throwIfFailed();
      waiting.push(record);
      waitingBytes += record.text.length;
      if (isFull()) start();
      while (
        !failed &&
        (waiting.length >= batchRecordsMax * BATCHES_WAITING_MAX ||
          waitingBytes >= batchBytesMax * BATCHES_WAITING_MAX)
      ) {
        await new Promise<void>((resolve) => {
          roomMade = resolve;
        });
      }
      throwIfFailed();
    },
    async flush() {
      flushing = true;
      start();
      await running;
      throwIfFailed();
    },
    oldestPending: () => underWay[0]?.number ?? waiting[0]?.number,
  };
}
