import { sleep } from '../../shared/async.ts';
import { traceFields } from '../../shared/contracts/traceparent.ts';
import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import { LARGE_FROM, runUrgent } from '../../shared/map-in-slices.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { type BatchSize, bytesOf, createBatchSize, takeRecords } from './batch-size.ts';
import type { Candidate } from './decode.ts';
import { classifyFault } from './faults.ts';
import type { WaitsFor } from './partition-status.ts';
import { type Slice, type StoreBatchDeps, type StoreResult, storeRound } from './store-batch.ts';
import { traceBatch, traceparentOfFailure } from './trace-batch.ts';
import type { TransactionSlots } from './transaction-slots.ts';

export interface RoundsDeps extends StoreBatchDeps {
  readonly logger: Logger;
  readonly slots: TransactionSlots;
  readonly topic: string;
}

/** A partition of the topic, and functions that are called while its records are stored. */
export interface RoundMember<Row> {
  readonly partition: number;
  readonly generation: number;
  decode(records: readonly LogRecord[]): Promise<Candidate<Row>[]>;
  /** Called when the records begin to wait for a resource. */
  onWait(waitsFor: WaitsFor): void;
  onCommit(result: StoreResult<Row>): void;
}

/** A batch of one partition; its records below index `at` are stored. */
interface Waiting<Row> {
  readonly member: RoundMember<Row>;
  readonly batch: LogBatch;
  at: number;
  readonly end: (stored: number) => void;
}

/** The next records of a batch, for one round. */
interface Share<Row> {
  readonly waiting: Waiting<Row>;
  readonly records: readonly LogRecord[];
}

const RECORDS_MAX = 2000;
const BYTES_MAX = 8 * 1024 * 1024;
/**
 * Milliseconds between the starts of two rounds. A round costs about ten statements, regardless of
 * its number of records and partitions.
 */
const INTERVAL_MS = 10;

/**
 * Rounds of a topic that may run concurrently while there is a backlog: one is decoded and encoded
 * while the database stores the other. Each has other partitions. Only one runs while other topics
 * have rounds, which would wait for the CPU longer than for their own work.
 */
const CONCURRENT_MAX = 2;
/** A partition's part of a full round, at most, so that other partitions remain for the next one. */
const SHARES_PER_ROUND = 6;

/**
 * Stores records of several partitions of a topic together: one transaction for all partitions that
 * have records. The next round starts when the previous one has ended, or earlier if a full round is
 * waiting. If a round fails, its partitions have to store their records separately, so that the
 * failure affects only the partition that causes it.
 */
export class Rounds<Row> {
  readonly #deps: RoundsDeps;
  readonly #kind: RecordKind<Row>;
  readonly #size: BatchSize = createBatchSize(RECORDS_MAX);
  /** Batches that are in no round, in the order in which they get into rounds. */
  readonly #waiting = new Set<Waiting<Row>>();
  #running = 0;
  #nextStartMs = Number.NEGATIVE_INFINITY;

  constructor(deps: RoundsDeps, kind: RecordKind<Row>) {
    this.#deps = deps;
    this.#kind = kind;
  }

  /**
   * Stores records of a batch in order, in one or more rounds. Resolves with the number of stored
   * records. They are fewer than all if a round failed or left the partition out, or if the
   * partition was revoked. Never rejects.
   */
  store(member: RoundMember<Row>, batch: LogBatch): Promise<number> {
    return new Promise((end) => {
      member.onWait('slot');
      this.#waiting.add({ member, batch, at: 0, end });
      this.#startRun();
    });
  }

  #startRun(): void {
    if (this.#running < CONCURRENT_MAX && this.#mayStart(this.#running)) void this.#run();
  }

  /** Returns whether another round may start next to those that are running. */
  #mayStart(running: number): boolean {
    if (running === 0) return this.#waiting.size > 0;
    const { slots, topic } = this.#deps;
    return !slots.areSharedWithOthers(topic) && this.#countWaiting() >= RECORDS_MAX / 2;
  }

  async #run(): Promise<void> {
    this.#running += 1;
    while (this.#mayStart(this.#running - 1)) {
      await this.#gather();
      this.#nextStartMs = performance.now() + INTERVAL_MS;
      const shares = this.#takeShares();
      this.#startRun();
      await this.#runRound(shares);
    }
    this.#running -= 1;
  }

  /** Waits until the next round may start, unless a full round is waiting. */
  async #gather(): Promise<void> {
    const waitMs = this.#nextStartMs - performance.now();
    if (waitMs > 0 && this.#countWaiting() < this.#size.recordsMax) await sleep(waitMs);
  }

  #countWaiting(): number {
    let records = 0;
    for (const { batch, at } of this.#waiting) records += batch.records.length - at;
    return records;
  }

  /** Takes about the same number of records of each waiting batch, up to a full round. */
  #takeShares(): Share<Row>[] {
    for (const waiting of this.#waiting) if (waiting.batch.signal.aborted) this.#end(waiting);
    const partitions = Math.min(this.#waiting.size, SHARES_PER_ROUND);
    const limits = {
      recordsMax: Math.max(1, Math.floor(this.#size.recordsMax / partitions)),
      bytesMax: BYTES_MAX / partitions,
    };
    // One record of each partition always fits.
    const countMax = Math.max(this.#size.recordsMax, this.#waiting.size);
    const shares: Share<Row>[] = [];
    let count = 0;
    let bytes = 0;
    for (const waiting of this.#waiting) {
      const records = takeRecords(waiting.batch.records, waiting.at, limits);
      count += records.length;
      bytes += records.reduce((sum, record) => sum + bytesOf(record), 0);
      if (shares.length > 0 && (bytes > BYTES_MAX || count > countMax)) break;
      shares.push({ waiting, records });
    }
    for (const { waiting } of shares) this.#waiting.delete(waiting);
    return shares;
  }

  async #runRound(shares: readonly Share<Row>[]): Promise<void> {
    if (shares.length === 0) return;
    try {
      // Decoded in the slot, because a record that is stored alone must be the only suspect if the
      // process crashes.
      const { slots, topic, metrics } = this.#deps;
      const waitsSinceMs = performance.now();
      const store = () => {
        metrics.endStage('slot', waitsSinceMs);
        return this.#storeBySize(shares);
      };
      const results = await slots.shared(store, topic);
      this.#onStored(shares, results);
    } catch (error) {
      const { topic, logger, metrics } = this.#deps;
      metrics.countFailure(error);
      const records = countRecords(shares);
      const { text: reason } = classifyFault(error);
      logger.info(
        { topic, partitions: shares.length, records, reason, ...traceFields(traceparentOfFailure(error)) },
        'round failed, storing its partitions separately',
      );
      this.#size.halve(records);
      for (const { waiting } of shares) this.#end(waiting);
    }
  }

  /** A round of few records goes first, because its latency is that of single requests. */
  #storeBySize(shares: readonly Share<Row>[]): Promise<Map<Share<Row>, StoreResult<Row>>> {
    const store = () => this.#storeShares(shares);
    return countRecords(shares) < LARGE_FROM ? runUrgent(store) : store();
  }

  async #storeShares(shares: readonly Share<Row>[]): Promise<Map<Share<Row>, StoreResult<Row>>> {
    const slices: Slice<Row>[] = [];
    for (const { waiting, records } of shares) {
      const { member, batch } = waiting;
      member.onWait('database');
      slices.push({
        topic: this.#deps.topic,
        partition: member.partition,
        generation: member.generation,
        candidates: await member.decode(records),
        batchFrom: batch.records[0]!.offset,
        latest: batch.latest,
        signal: batch.signal,
      });
    }
    const store = () => storeRound(this.#deps, this.#kind, slices);
    const results = await traceBatch(slices, store, (stored) => stored);
    return new Map(
      shares.flatMap((share, i) => {
        const result = results.get(slices[i]!);
        return result ? [[share, result]] : [];
      }),
    );
  }

  #onStored(shares: readonly Share<Row>[], results: ReadonlyMap<Share<Row>, StoreResult<Row>>): void {
    for (const share of shares) {
      const { waiting } = share;
      const result = results.get(share);
      if (result) {
        waiting.at += share.records.length;
        waiting.member.onCommit(result);
      }
      if (!result || waiting.at === waiting.batch.records.length) {
        this.#end(waiting);
      } else {
        // After the others, so that every partition gets its turn.
        this.#waiting.add(waiting);
      }
    }
    this.#size.noteCommit(countRecords(shares));
  }

  #end(waiting: Waiting<Row>): void {
    this.#waiting.delete(waiting);
    waiting.end(waiting.at);
  }
}

function countRecords(shares: readonly Share<unknown>[]): number {
  return shares.reduce((sum, { records }) => sum + records.length, 0);
}
