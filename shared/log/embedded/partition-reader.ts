import { setTimeout as delay } from 'node:timers/promises';
import { errorCode, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import { type ConsumerOptions, type LogRecord, POSITION_LOST } from '../log.ts';
import { readRecords, type StoredRecord } from './sql/read.ts';
import type { BoundsWatch } from './watch.ts';

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
  /** Asks for the start anew once the handler has ended. */
  askStart(): void;
  /** Aborts the current batch's signal. */
  abort(): void;
  /** Resolves when the handler has ended and its work is committed; never rejects. */
  readonly ended: Promise<void>;
}

/** Bytes of values a batch. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** Short: a person who has mended what was wrong looks at whether it goes on. */
const START_BACKOFF_MS = { min: 250, max: 5_000 };
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
  /** Why its records could not be read, the last time that this was tried. */
  let unread: string | undefined;
  /** Batches in a row that ended with `POSITION_LOST`. */
  let lost = 0;
  let startWanted = new AbortController();
  /** Made with each start and not with each wait: Node keeps what hangs on a signal for as long as that lives. */
  let ending = AbortSignal.any([signal, startWanted.signal]);
  let lastBatchAtMs = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    while (!signal.aborted) {
      if (position === undefined || startWanted.signal.aborted) await retrying(START_BACKOFF_MS, start);
      else await readOn(position);
    }
    await commit();
  }

  async function readOn(from: bigint): Promise<void> {
    await watch.reached(topic, partition, from, ending);
    if (!ending.aborted) await gather(from);
    if (!ending.aborted) await retrying(BATCH_BACKOFF_MS, handleNext);
  }

  async function start(): Promise<void> {
    startWanted = new AbortController();
    ending = AbortSignal.any([signal, startWanted.signal]);
    await watch.reached(topic, partition, -1n, signal);
    const bounds = watch.bounds(topic, partition);
    if (bounds === undefined) return;
    try {
      position = await consumer.startOffset(partition, bounds);
      // Where there is a record, only its handler can tell whether the partition is the one that was read before.
      if (lost === 0 || position >= bounds.latest) stopped = undefined;
    } catch (error) {
      position = undefined;
      stop(error);
      throw error;
    }
  }

  function stop(error: unknown): void {
    const reason = errorMessage(error);
    if (reason !== stopped) logger.warn({ topic, partition, reason }, 'partition is not read');
    stopped = reason;
  }

  async function gather(from: bigint): Promise<void> {
    const waitMs = lastBatchAtMs + (consumer.batchIntervalMs ?? 0) - performance.now();
    const latest = watch.bounds(topic, partition)?.latest ?? from;
    if (waitMs > 0 && latest - from < consumer.batchRecordsMax) await pause(waitMs);
    lastBatchAtMs = performance.now();
  }

  async function handleNext(): Promise<void> {
    const from = position!;
    const stored = await read(from);
    if (stored.length === 0) return skipDeleted(from);
    const records = stored.map(toLogRecord);
    // The same records again until they are handled: a retry must not find its batch cut elsewhere.
    await retrying(BATCH_BACKOFF_MS, async () => {
      // No lease, no batch: the consumer finds out and aborts.
      if (!options.leaseHolds()) throw new Error('the lease ran out');
      const end = records.at(-1)!.offset + 1n;
      watch.appended(topic, partition, end);
      const latest = watch.bounds(topic, partition)?.latest ?? end;
      try {
        await consumer.onBatch({ topic, partition, records, latest, signal });
      } catch (error) {
        if (signal.aborted) throw error;
        if (errorCode(error) === POSITION_LOST) return lose(error);
        if (!startWanted.signal.aborted) throw error;
        return;
      }
      lost = 0;
      stopped = undefined;
      position = end;
    });
    await commit();
  }

  async function read(from: bigint): Promise<StoredRecord[]> {
    try {
      const { batchRecordsMax: recordsMax } = consumer;
      const stored = await readRecords(pool, {
        topic,
        partition,
        from,
        recordsMax,
        bytesMax: BATCH_BYTES_MAX,
      });
      unread = undefined;
      return stored;
    } catch (error) {
      unread = errorMessage(error);
      throw error;
    }
  }

  async function lose(error: unknown): Promise<void> {
    stop(error);
    startWanted.abort();
    await pause(Math.min(START_BACKOFF_MS.min * 2 ** Math.min(lost++, 10), START_BACKOFF_MS.max));
  }

  /** Nothing from here on: all of it was deleted, it is about to be seen, or the partition is another one. */
  async function skipDeleted(from: bigint): Promise<void> {
    const { earliest, latest } = watch.bounds(topic, partition) ?? { earliest: 0n, latest: from };
    if (latest < from) startWanted.abort();
    else if (earliest > from) position = earliest;
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
    stopped: () => stopped ?? unread,
    askStart: () => startWanted.abort(),
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
    timestampMs: Number(stored.appended_at_ms),
  };
}
