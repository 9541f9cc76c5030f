import { backoffMs, sleep } from '../../async.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { backlogFrom } from '../backlog.ts';
import {
  type Backlog,
  type ConsumerOptions,
  type LogRecord,
  type PartitionBounds,
  POSITION_LOST,
} from '../log.ts';
import { FetchBuffer } from './fetch-buffer.ts';

const HANDLER_BACKOFF = { minMs: 100, maxMs: 5_000 };
/** The maximum is short, because an operator who fixed the cause waits for reading to start. */
const START_BACKOFF = { minMs: 1_000, maxMs: 5_000 };

/** Controls the fetches of one partition; implemented by the group member. */
export interface PartitionSource {
  bounds(partition: number): Promise<PartitionBounds>;
  /** Sets the offset at which the next fetch starts. */
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  /**
   * Called when all records below this offset were handled, by this reader or before it started.
   */
  handled(partition: number, nextOffset: bigint): void;
}

/** The result of one fetch for one partition. */
export interface FetchedRecords {
  /** The offset that was requested. */
  readonly fetchedFrom: bigint;
  readonly records: readonly LogRecord[];
  /** The offset at which the next fetch starts. */
  readonly nextOffset: bigint;
  readonly latest: bigint;
}

export interface PartitionReaderOptions {
  readonly partition: number;
  readonly consumer: ConsumerOptions;
  readonly source: PartitionSource;
  readonly logger: Logger;
  /**
   * The end of the previous assignment's reader of this partition. Its handler must have ended
   * before this reader starts.
   */
  readonly previous: Promise<void>;
}

/**
 * Reads one partition during one assignment. Asks for the start offset, delivers batches one at a
 * time, and ends when the reader is retired. The partition is paused while its start offset is
 * unknown and while its buffer is full. So a slow or stopped partition delays neither other
 * partitions nor heartbeats.
 */
export class PartitionReader {
  /** Resolves when the last handler has ended. */
  readonly done: Promise<void>;
  private readonly partition: number;
  private readonly consumer: ConsumerOptions;
  private readonly source: PartitionSource;
  private readonly logger: Logger;
  /** Aborts the batch that is being handled. */
  private readonly aborting = new AbortController();
  /** Aborted when reading must end after that batch. */
  private readonly retiring = new AbortController();
  private readonly buffer = new FetchBuffer();
  private isPaused = true;
  /** The offset at which the next fetch starts; undefined until the start offset is known. */
  private nextFetch: bigint | undefined;
  private handledTo: bigint | undefined;
  private latest = 0n;
  /** The records of the current batch. */
  private handling: readonly LogRecord[] = [];
  /** Estimates when the log accepted the first record that is not in memory; see backlog.ts. */
  private unreadFromMs = Date.now();
  private stopReason: string | undefined;
  /** Consecutive batches that failed with `POSITION_LOST`. */
  private lostBatches = 0;
  private wake: (() => void) | undefined;

  constructor({ partition, consumer, source, logger, previous }: PartitionReaderOptions) {
    this.partition = partition;
    this.consumer = consumer;
    this.source = source;
    this.logger = logger;
    this.done = this.run(previous);
  }

  /**
   * Takes fetched records. Returns false if the records do not follow the previous ones. In that
   * case, none of them counts as fetched.
   */
  offer({ fetchedFrom, records, nextOffset, latest }: FetchedRecords): boolean {
    if (this.nextFetch === undefined || this.retiring.signal.aborted) return false;
    // The offset was out of range, or a fetch from before the start arrived late. Only the handler
    // can decide whether records are missing.
    if (fetchedFrom !== this.nextFetch) {
      this.restart();
      return false;
    }
    this.nextFetch = nextOffset;
    this.noteEnd(latest);
    this.buffer.add(records);
    if (this.buffer.isFull()) this.setPaused(true);
    this.wake?.();
    return true;
  }

  /**
   * Returns the offset at which the next fetch starts; undefined until the start offset is known.
   */
  fetchOffset(): bigint | undefined {
    return this.nextFetch;
  }

  /**
   * Records the end of the partition, so that its records count as lag even if they cannot be
   * fetched.
   */
  noteEnd(latest: bigint): void {
    if (latest <= this.latest) return;
    if (this.lag() === 0n) this.unreadFromMs = Date.now();
    this.latest = latest;
  }

  /** Drops fetched records, and asks for the start offset again once the handler has ended. */
  restart(): void {
    if (this.nextFetch === undefined) return;
    this.setPaused(true);
    this.nextFetch = undefined;
    this.buffer.clear();
    this.wake?.();
  }

  /** Returns why the partition is not being read, as text; undefined while it is. */
  stoppedBecause(): string | undefined {
    return this.stopReason;
  }

  lag(): bigint {
    return this.handledTo === undefined || this.latest < this.handledTo ? 0n : this.latest - this.handledTo;
  }

  backlog(from: bigint): Backlog {
    return backlogFrom(from, this.latest, [this.handling, this.buffer.peek()], this.unreadFromMs);
  }

  /**
   * Stops delivering batches; `abort` also aborts the signal of the batch that is being handled.
   */
  retire(abort: boolean): void {
    this.retiring.abort();
    if (abort) this.aborting.abort();
    this.wake?.();
  }

  private async run(previous: Promise<void>): Promise<void> {
    await previous;
    while (!this.retiring.signal.aborted) {
      if (this.nextFetch === undefined) await this.start();
      else if (this.buffer.length === 0) await this.untilWoken();
      else await this.handle();
    }
  }

  private async start(): Promise<void> {
    for (let failures = 1; !this.retiring.signal.aborted; failures++) {
      try {
        return await this.tryStart();
      } catch (error) {
        if (this.retiring.signal.aborted) return;
        this.stop(error);
        await this.pauseFor(backoffMs(failures, START_BACKOFF));
      }
    }
  }

  private async tryStart(): Promise<void> {
    const bounds = await this.source.bounds(this.partition);
    this.latest = bounds.latest;
    const offset = await this.consumer.startOffset(this.partition, bounds);
    if (this.retiring.signal.aborted) return;
    // If there is a record, only its handler can detect whether the log was replaced by another
    // one.
    if (this.lostBatches === 0 || offset >= bounds.latest) this.stopReason = undefined;
    this.nextFetch = offset;
    this.handledTo = offset;
    this.source.seek(this.partition, offset);
    this.setPaused(false);
    this.source.handled(this.partition, offset);
  }

  private async handle(): Promise<void> {
    const records = this.buffer.take(this.consumer.batchRecordsMax);
    if (!this.buffer.isFull()) this.setPaused(false);
    this.handling = records;
    const isDone = await this.handleUntilDone(records);
    this.handling = [];
    if (!isDone) return;
    this.lostBatches = 0;
    this.stopReason = undefined;
    const last = records[records.length - 1]!;
    this.handledTo = last.offset + 1n;
    this.unreadFromMs = last.timestampMs;
    this.source.handled(this.partition, this.handledTo);
  }

  /**
   * Gives a batch to the handler until the handler succeeds. Returns false if the batch is
   * abandoned because the reader was retired or the position lost.
   */
  private async handleUntilDone(records: readonly LogRecord[]): Promise<boolean> {
    const { topic } = this.consumer;
    const { partition, latest } = this;
    for (let failures = 1; ; failures++) {
      try {
        await this.consumer.onBatch({ topic, partition, records, latest, signal: this.aborting.signal });
        return true;
      } catch (error) {
        if (this.retiring.signal.aborted) return false;
        if (errorCode(error) === POSITION_LOST) {
          await this.losePosition(error);
          return false;
        }
        this.logger.warn({ err: error, topic, partition, failures }, 'batch failed, retrying');
        await this.pauseFor(backoffMs(failures, HANDLER_BACKOFF));
        if (this.retiring.signal.aborted || this.nextFetch === undefined) return false;
      }
    }
  }

  private async losePosition(error: unknown): Promise<void> {
    this.stop(error);
    this.restart();
    this.lostBatches += 1;
    await this.pauseFor(backoffMs(this.lostBatches, START_BACKOFF));
  }

  private stop(error: unknown): void {
    const reason = errorMessage(error);
    const { topic } = this.consumer;
    if (reason !== this.stopReason) {
      this.logger.warn({ topic, partition: this.partition, reason }, 'partition stopped');
    }
    this.stopReason = reason;
  }

  private setPaused(now: boolean): void {
    if (this.isPaused === now || this.retiring.signal.aborted) return;
    if (this.nextFetch === undefined && !now) return;
    this.isPaused = now;
    if (now) this.source.pause(this.partition);
    else this.source.resume(this.partition);
  }

  /** Resolves when records were fetched, the reader was retired, or a restart was requested. */
  private untilWoken(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = () => {
        this.wake = undefined;
        resolve();
      };
    });
  }

  private pauseFor(ms: number): Promise<void> {
    return sleep(ms, { signal: this.retiring.signal });
  }
}
