import { type Backoff, backoffMs, retryUntilSuccess, sleep } from '../../async.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import { backlogFrom } from '../backlog.ts';
import { fromPairs, headerList } from '../headers.ts';
import { type Backlog, type ConsumerOptions, type LogRecord, POSITION_LOST } from '../log.ts';
import type { Gathering } from './gathering.ts';
import type { RecentReader, RecentRecords } from './recent-records.ts';
import { readRecords, type StoredRecord } from './sql/log-records.ts';
import type { BoundsWatch } from './watch.ts';

export interface PartitionReaderOptions {
  readonly consumer: ConsumerOptions;
  readonly partition: number;
  readonly pool: Pool;
  readonly watch: BoundsWatch;
  readonly recent: RecentRecords;
  /** Shared by the partitions of the topic, so that their records are handled together. */
  readonly gathering: Gathering;
  readonly logger: Logger;
}

/** Maximum bytes of values per batch. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/**
 * The maximum is short, because an operator who fixed the cause waits for the partition to make
 * progress.
 */
const START_BACKOFF: Backoff = { minMs: 250, maxMs: 5000 };
const BATCH_BACKOFF: Backoff = { minMs: 100, maxMs: 5000 };

/** Reads one partition in batches from its start offset, until the reader is closed. */
export class PartitionReader {
  private readonly options: PartitionReaderOptions;
  private readonly topic: string;
  private readonly partition: number;
  private readonly recent: RecentReader;
  private readonly closing = new AbortController();
  private readonly ended: Promise<void>;
  /** The next offset to handle; undefined until the consumer has provided the start offset. */
  private next: bigint | undefined;
  /** The records of the current batch. */
  private handling: readonly LogRecord[] = [];
  /** Estimates when the log accepted the first record that is not in memory; see backlog.ts. */
  private unreadFromMs = Date.now();
  private stopReason: string | undefined;
  /** The reason why the last read failed; undefined after a success. */
  private readFailure: string | undefined;
  /** Consecutive batches that ended with `POSITION_LOST`. */
  private lostBatches = 0;
  private restarting = new AbortController();
  /** Replaced at each start, not at each wait: listeners stay in memory as long as their signal. */
  private interrupted: AbortSignal;

  constructor(options: PartitionReaderOptions) {
    this.options = options;
    this.topic = options.consumer.topic;
    this.partition = options.partition;
    this.recent = options.recent.open(this.topic, this.partition);
    this.interrupted = AbortSignal.any([this.closing.signal, this.restarting.signal]);
    this.ended = this.run();
  }

  /** Returns the next offset to handle; undefined until the start offset is known. */
  position(): bigint | undefined {
    return this.next;
  }

  /** Returns the known number of records that are not handled. */
  lag(): bigint {
    const bounds = this.bounds();
    if (bounds === undefined) return 0n;
    const lag = bounds.latest - (this.next ?? bounds.earliest);
    return lag > 0n ? lag : 0n;
  }

  backlog(from: bigint): Backlog {
    return backlogFrom(from, this.bounds()?.latest ?? 0n, [this.handling], this.unreadFromMs);
  }

  /** Returns why the partition is not being read; undefined while it is. */
  stopped(): string | undefined {
    return this.stopReason ?? this.readFailure;
  }

  /** Asks the consumer for the start offset again, once the handler has ended. */
  restart(): void {
    this.restarting.abort();
  }

  /** Aborts the current batch's signal and waits for its handler. Never rejects. */
  close(): Promise<void> {
    this.closing.abort();
    return this.ended;
  }

  private async run(): Promise<void> {
    while (!this.closing.signal.aborted) {
      if (this.next === undefined || this.restarting.signal.aborted) {
        await this.retry(START_BACKOFF, () => this.start());
      } else await this.readNext(this.next);
    }
    this.recent.close();
  }

  private async start(): Promise<void> {
    const { consumer, watch } = this.options;
    // The log may have been replaced by another one.
    this.recent.clear();
    this.restarting = new AbortController();
    this.interrupted = AbortSignal.any([this.closing.signal, this.restarting.signal]);
    await watch.reached(this.topic, this.partition, -1n, this.closing.signal);
    const bounds = this.bounds();
    if (bounds === undefined) return;
    try {
      this.next = await consumer.startOffset(this.partition, bounds);
      // If there is a record, only its handler can detect whether the log was replaced by another
      // one.
      if (this.lostBatches === 0 || this.next >= bounds.latest) this.stopReason = undefined;
    } catch (error) {
      this.next = undefined;
      this.stop(error);
      throw error;
    }
  }

  private stop(error: unknown): void {
    const { topic, partition } = this;
    const reason = errorMessage(error);
    if (reason !== this.stopReason) {
      this.options.logger.warn({ topic, partition, reason }, 'partition stopped');
    }
    this.stopReason = reason;
  }

  private async readNext(from: bigint): Promise<void> {
    const wasIdle = this.lag() === 0n;
    await this.options.watch.reached(this.topic, this.partition, from, this.interrupted);
    if (wasIdle) this.unreadFromMs = Date.now();
    if (this.lag() < BigInt(this.options.consumer.batchRecordsMax)) await this.options.gathering.turn();
    if (!this.interrupted.aborted) await this.retry(BATCH_BACKOFF, () => this.handleBatch(from));
  }

  private async handleBatch(from: bigint): Promise<void> {
    const records = await this.read(from);
    if (records.length === 0) return this.skipDeleted(from);
    this.handling = records;
    // Redelivers the same batch until it is handled: a retry must contain the same records.
    await this.retry(BATCH_BACKOFF, () => this.handle(records));
    this.handling = [];
  }

  private async read(from: bigint): Promise<LogRecord[]> {
    const { topic, partition } = this;
    const { pool, consumer } = this.options;
    const limits = { recordsMax: consumer.batchRecordsMax, bytesMax: BATCH_BYTES_MAX };
    const recent = this.recent.read(from, limits);
    if (recent.length > 0) return recent;
    try {
      const stored = await readRecords(pool, { topic, partition, from, ...limits });
      this.readFailure = undefined;
      return stored.map(toLogRecord);
    } catch (error) {
      this.readFailure = errorMessage(error);
      throw error;
    }
  }

  private async handle(records: readonly LogRecord[]): Promise<void> {
    const { topic, partition } = this;
    const { consumer, watch } = this.options;
    const { signal } = this.closing;
    const last = records.at(-1)!;
    const end = last.offset + 1n;
    watch.appended(topic, partition, end);
    const latest = this.bounds()?.latest ?? end;
    try {
      await consumer.onBatch({ topic, partition, records, latest, signal });
    } catch (error) {
      if (signal.aborted) throw error;
      if (errorCode(error) === POSITION_LOST) return this.restartAfterLoss(error);
      if (!this.restarting.signal.aborted) throw error;
      return;
    }
    this.lostBatches = 0;
    this.stopReason = undefined;
    this.next = end;
    this.unreadFromMs = last.timestampMs;
  }

  private async restartAfterLoss(error: unknown): Promise<void> {
    this.stop(error);
    this.restarting.abort();
    this.lostBatches += 1;
    await this.pause(backoffMs(this.lostBatches, START_BACKOFF));
  }

  /**
   * Handles a read that found no record: the records were deleted, they are not visible yet, or the
   * topic was recreated.
   */
  private async skipDeleted(from: bigint): Promise<void> {
    const { earliest, latest } = this.bounds() ?? { earliest: 0n, latest: from };
    if (latest < from) this.restarting.abort();
    else if (earliest > from) this.next = earliest;
    else await this.pause(BATCH_BACKOFF.minMs);
  }

  /** Retries the attempt until it succeeds or the reader is closed. */
  private async retry(backoff: Backoff, attempt: () => Promise<void>): Promise<void> {
    const { topic, partition } = this;
    const onFailure = (error: unknown) =>
      this.options.logger.debug(
        { topic, partition, reason: errorMessage(error) },
        'partition failed, retrying',
      );
    await retryUntilSuccess(attempt, { backoff, signal: this.closing.signal, onFailure });
  }

  private async pause(waitMs: number): Promise<void> {
    await sleep(waitMs, { signal: this.closing.signal });
  }

  private bounds() {
    return this.options.watch.bounds(this.topic, this.partition);
  }
}

/** Returns a stored record as readers get it. */
export function toLogRecord({ offset, value, headers, ...stored }: StoredRecord): LogRecord {
  const timestampMs = stored.appendedAtMs;
  if (Array.isArray(headers)) {
    const [key, pairs] = headers;
    return { offset, key: Buffer.from(key, 'base64'), value, headers: fromPairs(pairs), timestampMs };
  }
  return { offset, key: Buffer.from(stored.key), value, headers: headerList(headers ?? {}), timestampMs };
}
