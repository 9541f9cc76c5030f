import { errorCode, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { type ConsumerOptions, type LogRecord, type PartitionBounds, POSITION_LOST } from '../log.ts';

/** Fetched bytes of one partition that may wait for its handler; what is fetched at once may go beyond it. */
const BUFFERED_BYTES_MAX = 1_048_576;
const HANDLER_RETRY_MIN_MS = 100;
const HANDLER_RETRY_MAX_MS = 5_000;
const START_RETRY_MIN_MS = 1_000;
/** Short: a person who has mended what was wrong looks at whether it goes on. */
const START_RETRY_MAX_MS = 5_000;

/** What a partition's reader needs of the group member that fetches for it. */
export interface PartitionSource {
  bounds(partition: number): Promise<PartitionBounds>;
  /** The next fetch starts at this offset. */
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  /** All records below this offset were handled, by this reader or before it started. */
  handled(partition: number, nextOffset: bigint): void;
}

/** What one fetch brought for one partition. */
export interface FetchedRecords {
  /** The offset that was asked for. */
  readonly fetchedFrom: bigint;
  readonly records: readonly LogRecord[];
  /** Where the next fetch will start. */
  readonly nextOffset: bigint;
  readonly latest: bigint;
}

/** One assignment of one partition: asks where to start, hands out batches one at a time, and ends when retired. */
export interface PartitionReader {
  /** Takes fetched records; false when they do not continue what was read, and nothing of them may count as fetched. */
  offer(fetched: FetchedRecords): boolean;
  /** Where the next fetch has to start; undefined until the start is known. */
  fetchOffset(): bigint | undefined;
  /** Takes note of where the partition ends: what is not fetched, for whatever reason, lags all the same. */
  noteEnd(latest: bigint): void;
  /** Forgets what was fetched, and asks for the start anew once the handler has ended. */
  askStart(): void;
  /** Why the partition is not read, in words. */
  stoppedBecause(): string | undefined;
  lag(): bigint;
  /** Hands out nothing new; `abort` also aborts the signal of the batch that is being handled. */
  retire(abort: boolean): void;
  /** Resolves when the last handler has ended. */
  readonly done: Promise<void>;
}

/**
 * Reads one assigned partition. It is paused while it does not know its start and while enough of it is buffered, so
 * that a slow or stopped partition holds up neither the others nor the heartbeats. `previous` is the same partition's
 * reader of an earlier assignment: its handler must have ended before the start is asked for.
 */
export function createPartitionReader(
  partition: number,
  options: ConsumerOptions,
  source: PartitionSource,
  logger: Logger,
  previous: Promise<void>,
): PartitionReader {
  const aborted = new AbortController();
  const retired = new AbortController();
  let buffer: LogRecord[] = [];
  let bufferedBytes = 0;
  let paused = true;
  let fetchOffset: bigint | undefined;
  let handledOffset: bigint | undefined;
  let latest = 0n;
  let stopped: string | undefined;
  /** Batches in a row that ended with `POSITION_LOST`. */
  let lost = 0;
  let wake: (() => void) | undefined;
  let nextBatchAtMs = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    await previous;
    while (!retired.signal.aborted) {
      if (fetchOffset === undefined) await start();
      else if (buffer.length === 0) await fetched();
      else if (mustGather()) await pauseFor(nextBatchAtMs - performance.now());
      else await handle();
    }
  }

  async function start(): Promise<void> {
    for (let attempt = 0; !retired.signal.aborted; attempt++) {
      try {
        const bounds = await source.bounds(partition);
        const offset = await options.startOffset(partition, bounds);
        if (retired.signal.aborted) return;
        // Where there is a record, only its handler can tell whether the partition is the one that was read before.
        if (lost === 0 || offset >= bounds.latest) stopped = undefined;
        latest = bounds.latest;
        fetchOffset = offset;
        handledOffset = offset;
        source.seek(partition, offset);
        setPaused(false);
        source.handled(partition, offset);
        return;
      } catch (error) {
        if (retired.signal.aborted) return;
        stop(error);
        await pauseFor(backoffMs(attempt, START_RETRY_MIN_MS, START_RETRY_MAX_MS));
      }
    }
  }

  function stop(error: unknown): void {
    const reason = errorMessage(error);
    if (reason !== stopped) logger.warn({ topic: options.topic, partition, reason }, 'partition is not read');
    stopped = reason;
  }

  function mustGather(): boolean {
    return buffer.length < options.batchRecordsMax && performance.now() < nextBatchAtMs;
  }

  async function handle(): Promise<void> {
    nextBatchAtMs = performance.now() + (options.batchIntervalMs ?? 0);
    const records = buffer.splice(0, options.batchRecordsMax);
    for (const record of records) bufferedBytes -= sizeOf(record);
    if (bufferedBytes < BUFFERED_BYTES_MAX) setPaused(false);
    for (let attempt = 0; ; attempt++) {
      try {
        await options.onBatch({
          topic: options.topic,
          partition,
          records,
          latest,
          signal: aborted.signal,
        });
        break;
      } catch (error) {
        if (retired.signal.aborted) return;
        if (errorCode(error) === POSITION_LOST) return lose(error);
        logger.warn({ err: error, topic: options.topic, partition, attempt }, 'batch failed; it comes again');
        await pauseFor(backoffMs(attempt, HANDLER_RETRY_MIN_MS, HANDLER_RETRY_MAX_MS));
        if (retired.signal.aborted || fetchOffset === undefined) return;
      }
    }
    lost = 0;
    stopped = undefined;
    handledOffset = records[records.length - 1]!.offset + 1n;
    source.handled(partition, handledOffset);
  }

  async function lose(error: unknown): Promise<void> {
    stop(error);
    askStart();
    await pauseFor(backoffMs(lost++, START_RETRY_MIN_MS, START_RETRY_MAX_MS));
  }

  function offer(fetchedNow: FetchedRecords): boolean {
    if (fetchOffset === undefined || retired.signal.aborted) return false;
    // The offset was out of range, or a fetch from before the start came late. Only the owner of the positions can tell
    // whether records are missing.
    if (fetchedNow.fetchedFrom !== fetchOffset) {
      askStart();
      return false;
    }
    fetchOffset = fetchedNow.nextOffset;
    noteEnd(fetchedNow.latest);
    for (const record of fetchedNow.records) {
      buffer.push(record);
      bufferedBytes += sizeOf(record);
    }
    if (bufferedBytes >= BUFFERED_BYTES_MAX) setPaused(true);
    wake?.();
    return true;
  }

  function noteEnd(end: bigint): void {
    if (end > latest) latest = end;
  }

  function askStart(): void {
    if (fetchOffset === undefined) return;
    setPaused(true);
    fetchOffset = undefined;
    buffer = [];
    bufferedBytes = 0;
    wake?.();
  }

  function setPaused(now: boolean): void {
    if (paused === now || retired.signal.aborted || (fetchOffset === undefined && !now)) return;
    paused = now;
    if (now) source.pause(partition);
    else source.resume(partition);
  }

  /** Until something was fetched, the partition retired, or the start is to be asked for. */
  function fetched(): Promise<void> {
    return new Promise((resolve) => {
      wake = () => {
        wake = undefined;
        resolve();
      };
    });
  }

  function pauseFor(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        retired.signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, delayMs);
      retired.signal.addEventListener('abort', end);
    });
  }

  return {
    offer,
    fetchOffset: () => fetchOffset,
    noteEnd,
    askStart,
    stoppedBecause: () => stopped,
    lag: () => (handledOffset === undefined || latest < handledOffset ? 0n : latest - handledOffset),
    retire(abort) {
      retired.abort();
      if (abort) aborted.abort();
      wake?.();
    },
    done: run(),
  };
}

const sizeOf = (record: LogRecord): number => record.value.length + RECORD_OVERHEAD_BYTES;

/** What a record weighs besides its value, roughly: its key, its headers and the objects around them. */
const RECORD_OVERHEAD_BYTES = 200;

const backoffMs = (attempt: number, minMs: number, maxMs: number): number =>
  Math.min(minMs * 2 ** Math.min(attempt, 20), maxMs);
