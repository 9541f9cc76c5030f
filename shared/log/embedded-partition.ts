import { setTimeout as delay } from 'node:timers/promises';
import { errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { readRecords, type StoredRecord } from '../postgres/embedded-log-read.ts';
import type { Pool } from '../postgres/pool.ts';
import type { BoundsWatch } from './embedded-watch.ts';
import type { ConsumerOptions, LogRecord } from './log.ts';

/** What one assigned partition needs of its consumer. */
export interface PartitionReaderOptions {
  readonly consumer: ConsumerOptions;
  readonly partition: number;
  readonly pool: Pool;
  readonly watch: BoundsWatch;
  readonly logger: Logger;
  /** Whether the lease still runs by this process's own clock: a process that was frozen learns it here first. */
  leaseHolds(): boolean;
  /** Moves the group's offset; resolves with false when the partition belongs to another member. */
  commit(nextOffset: bigint): Promise<boolean>;
}

/** One partition being read. */
export interface PartitionReader {
  /** The next offset to handle; undefined until it is known where to start. */
  position(): bigint | undefined;
  /** Why the partition is not read; undefined when it is. */
  stopped(): string | undefined;
  /** Aborts the current batch's signal. */
  abort(): void;
  /** Resolves when the handler has ended and its work is committed; never rejects. */
  readonly ended: Promise<void>;
}

/** Bytes of values a batch. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const START_BACKOFF_MS = { min: 250, max: 10_000 };
const BATCH_BACKOFF_MS = { min: 100, max: 5000 };

/** Reads one partition from where the consumer wants it, batch after batch, until it is aborted. */
export function readPartition(options: PartitionReaderOptions): PartitionReader {
  const { consumer, partition, pool, watch, logger } = options;
  const { topic } = consumer;
  const aborting = new AbortController();
  const { signal } = aborting;
  let position: bigint | undefined;
  let committed: bigint | undefined;
  let stopped: string | undefined;
  let lastBatchAtMs = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    await retrying(START_BACKOFF_MS, start);
    while (!signal.aborted && position !== undefined) {
      await watch.reached(topic, partition, position, signal);
      await gather(position);
      await retrying(BATCH_BACKOFF_MS, handleNext);
    }
    await commit();
  }

  async function start(): Promise<void> {
    await watch.reached(topic, partition, -1n, signal);
    const bounds = watch.bounds(topic, partition);
    if (bounds === undefined) return;
    try {
      position = await consumer.startOffset(partition, bounds);
      stopped = undefined;
    } catch (error) {
      stopped = errorMessage(error);
      throw error;
    }
  }

  async function gather(from: bigint): Promise<void> {
    const waitMs = lastBatchAtMs + (consumer.batchIntervalMs ?? 0) - performance.now();
    const latest = watch.bounds(topic, partition)?.latest ?? from;
    if (waitMs > 0 && latest - from < consumer.batchRecordsMax) await pause(waitMs);
    lastBatchAtMs = performance.now();
  }

  async function handleNext(): Promise<void> {
    const from = position!;
    const stored = await readRecords(pool, {
      topic,
      partition,
      from,
      recordsMax: consumer.batchRecordsMax,
      bytesMax: BATCH_BYTES_MAX,
    });
    if (stored.length === 0) return skipDeleted(from);
    const records = stored.map(toLogRecord);
    // The same records again until they are handled: a retry must not find its batch cut elsewhere.
    await retrying(BATCH_BACKOFF_MS, async () => {
      // No lease, no batch: the consumer finds out and aborts.
      if (!options.leaseHolds()) throw new Error('the lease ran out');
      const latest = watch.bounds(topic, partition)?.latest ?? from;
      const end = records.at(-1)!.offset + 1n;
      await consumer.onBatch({ topic, partition, records, latest: latest > end ? latest : end, signal });
      position = end;
    });
    await commit();
  }

  /** Nothing from here on, though the partition goes on: all of it was deleted, or it is about to be seen. */
  async function skipDeleted(from: bigint): Promise<void> {
    const earliest = watch.bounds(topic, partition)?.earliest ?? 0n;
    if (earliest > from) position = earliest;
    else await pause(BATCH_BACKOFF_MS.min);
  }

  async function commit(): Promise<void> {
    if (position === undefined || position === committed) return;
    const target = position;
    try {
      if (await options.commit(target)) committed = target;
      else aborting.abort();
    } catch (error) {
      // The next batch moves it further; where to start is never decided by it.
      logger.warn({ topic, partition, reason: errorMessage(error) }, "the group's offset could not be moved");
    }
  }

  /** Repeats until it succeeds or the partition is taken away. */
  async function retrying(
    backoffMs: { min: number; max: number },
    attempt: () => Promise<void>,
  ): Promise<void> {
    for (let waitMs = backoffMs.min; !signal.aborted; waitMs = Math.min(waitMs * 2, backoffMs.max)) {
      try {
        return await attempt();
      } catch (error) {
        if (signal.aborted) return;
        logger.debug(
          { topic, partition, reason: errorMessage(error) },
          'a partition waits before it tries again',
        );
        await pause(waitMs);
      }
    }
  }

  async function pause(waitMs: number): Promise<void> {
    await delay(waitMs, undefined, { signal }).catch(() => undefined);
  }

  return {
    position: () => position,
    stopped: () => stopped,
    abort: () => aborting.abort(),
    ended: run(),
  };
}

/** A stored record as readers get it. */
export function toLogRecord(stored: StoredRecord): LogRecord {
  return {
    offset: stored.offset,
    key: stored.key,
    value: stored.value,
    headers: stored.headers ?? {},
    timestampMs: stored.appended_at.getTime(),
  };
}
