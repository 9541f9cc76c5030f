import { traceFields } from '../../shared/contracts/traceparent.ts';
import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import { createRateLimitedLog, type RateLimitedLog } from '../../shared/rate-limited-log.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { BATCH_BYTES_MAX, type BatchSize, createBatchSize, takeRecords } from './batch-size.ts';
import {
  type Candidate,
  type DecodeContext,
  type Rejection,
  rejected,
  rejectedUnread,
  toCandidate,
} from './decode.ts';
import type { DeadLetter } from './deduplicate.ts';
import { classifyFault, type Fault } from './faults.ts';
import type { WaitsFor } from './partition-status.ts';
import { traceFieldsOfRecords } from './record-trace.ts';
import {
  BatchTooLarge,
  isRefusal,
  type RetryDeps,
  retryUntilStored,
  SHARED,
  type StoreMode,
} from './retry-until-stored.ts';
import { type StoreBatchDeps, type StoreResult, storeBatch } from './store-batch.ts';
import { traceBatch } from './trace-batch.ts';
import type { TransactionSlots } from './transaction-slots.ts';

export interface BisectingStoreDeps extends StoreBatchDeps {
  readonly logger: Logger;
  readonly slots: TransactionSlots;
  readonly batchRecordsMax: number;
  readonly recordAgeMaxMs: number;
}

/** The partition, and functions that are called while its records are stored. */
export interface StoredPartition {
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  /** Called when the records begin to wait for a resource. */
  onWait(waitsFor: WaitsFor): void;
  /** Called with the reason of each failure that is retried, and with undefined after a success. */
  onFault(fault: Fault | undefined): void;
  onCommit(result: StoreResult<unknown>): void;
}

export interface AloneOptions {
  /**
   * Called in the transaction slot. A rejection that it returns makes the record a dead letter
   * without decoding it.
   */
  beforeDecoding(): Promise<Rejection | undefined>;
  /** Called after a failure that may be retried, before the slot is released. */
  onRetry(): Promise<void>;
}

/**
 * Stores a partition's records: decodes them, stores them as one batch, and retries while the
 * failure is temporary. Bisects a refused batch to isolate the records that cannot be stored, which
 * become dead letters.
 */
export class BisectingStore<Row> {
  readonly #deps: BisectingStoreDeps;
  readonly #kind: RecordKind<Row>;
  readonly #partition: StoredPartition;
  readonly #retryDeps: RetryDeps<Row>;
  readonly #batchSize: BatchSize;
  readonly #warnings: RateLimitedLog;

  constructor(deps: BisectingStoreDeps, kind: RecordKind<Row>, partition: StoredPartition) {
    this.#deps = deps;
    this.#kind = kind;
    this.#partition = partition;
    const { onWait, onFault } = partition;
    this.#retryDeps = { ...deps, kind, onWait, onFault, decodeContext: () => this.#decodeContext() };
    this.#batchSize = createBatchSize(deps.batchRecordsMax);
    this.#warnings = createRateLimitedLog(deps.logger);
  }

  /** Stores records in order, in the largest batches that succeed. */
  async storeInOrder(batch: LogBatch, records: readonly LogRecord[], mode = SHARED): Promise<void> {
    for (let at = 0; at < records.length; ) {
      const { recordsMax } = this.#batchSize;
      const chunk = takeRecords(records, at, { recordsMax, bytesMax: BATCH_BYTES_MAX });
      try {
        await this.#store(batch, chunk, mode);
        at += chunk.length;
      } catch (error) {
        if (!(error instanceof BatchTooLarge)) throw error;
        const { topic, partition } = this.#partition;
        this.#deps.logger.info(
          {
            topic,
            partition,
            records: chunk.length,
            reason: error.fault.text,
            ...traceFieldsOfRecords(chunk),
          },
          'batch failed, retrying with half its records',
        );
        this.#batchSize.halve(chunk.length);
      }
    }
  }

  /** Stores a record while no other transaction of this process runs. */
  async storeAlone(batch: LogBatch, record: LogRecord, options: AloneOptions): Promise<void> {
    await this.#store(batch, [record], { alone: true, onRetry: options.onRetry }, async () => {
      const rejection = await options.beforeDecoding();
      if (!rejection) return await this.decode([record]);
      return [rejectedUnread(record, rejection, this.#decodeContext())];
    });
  }

  async decode(records: readonly LogRecord[]): Promise<Candidate<Row>[]> {
    const startedAtMs = performance.now();
    const context = this.#decodeContext();
    const candidates = await mapInSlices(records, (record) => toCandidate(this.#kind, record, context));
    this.#deps.metrics.endStage('decode', startedAtMs);
    return candidates;
  }

  /** Records that a transaction with the partition's records was committed. */
  noteCommit(result: StoreResult<Row>): void {
    this.#partition.onCommit(result);
    for (const deadLetter of result.deadLetters) this.#logDeadLetter(deadLetter);
  }

  /** Runs other work on the partition's position, with the same retries as for records. */
  async retryUntilDone<T>(batch: LogBatch, work: () => Promise<T>): Promise<T> {
    return await retryUntilStored(this.#retryDeps, batch, work);
  }

  /**
   * Decodes and stores the records as one batch. If they are refused, bisects them; a single
   * refused record becomes a dead letter. Rejects with BatchTooLarge, with no record stored, if a
   * smaller batch may succeed.
   */
  async #store(
    batch: LogBatch,
    records: readonly LogRecord[],
    mode: StoreMode,
    decode = () => this.decode(records),
  ): Promise<void> {
    let candidates: readonly Candidate<Row>[] = [];
    const decodeAndCommit = async () => {
      candidates = await decode();
      await this.#commit(batch, candidates);
    };
    try {
      await retryUntilStored(this.#retryDeps, batch, decodeAndCommit, { mode, records });
      this.#batchSize.noteCommit(records.length);
    } catch (error) {
      if (error instanceof BatchTooLarge) throw error;
      const fault = classifyFault(error);
      if (!isRefusal(fault) && fault.kind !== 'no-partition') throw error;
      if (records.length === 1) return await this.#quarantine(batch, candidates[0]!, fault, mode);
      const middle = records.length >> 1;
      await this.storeInOrder(batch, records.slice(0, middle), mode);
      await this.storeInOrder(batch, records.slice(middle), mode);
    }
  }

  /** Stores a record that the database refused as a dead letter. */
  async #quarantine(
    batch: LogBatch,
    candidate: Candidate<Row>,
    { text }: Fault,
    mode: StoreMode,
  ): Promise<void> {
    const refused = rejected(candidate, { reason: 'refused', stage: 'store', text });
    const records = [candidate.log];
    try {
      await retryUntilStored(this.#retryDeps, batch, () => this.#commit(batch, [refused]), { mode, records });
    } catch (error) {
      if (!isRefusal(classifyFault(error))) throw error;
      // Stored without its id, its headers and its webhook event. If that is refused too, the
      // partition is stalled.
      await retryUntilStored(this.#retryDeps, batch, () => this.#commit(batch, [refused], true), { mode });
    }
  }

  async #commit(batch: LogBatch, candidates: readonly Candidate<Row>[], bare = false): Promise<void> {
    const { topic, partition, generation } = this.#partition;
    const { latest, signal } = batch;
    const batchFrom = batch.records[0]!.offset;
    const slice = { topic, partition, generation, candidates, batchFrom, latest, signal, bare };
    const store = () => storeBatch(this.#deps, this.#kind, slice);
    this.noteCommit(await traceBatch([slice], store, (result) => new Map([[slice, result]])));
  }

  #decodeContext(): DecodeContext {
    const { topic, partition, generation } = this.#partition;
    const { clock, recordAgeMaxMs } = this.#deps;
    return { topic, partition, generation, nowMs: clock.nowMs(), recordAgeMaxMs };
  }

  #logDeadLetter({ candidate: { log, identity }, rejection }: DeadLetter<Row>): void {
    const { topic, partition } = this.#partition;
    this.#warnings.warn(
      {
        topic,
        partition,
        offset: String(log.offset),
        tenantId: identity?.tenantId,
        eventId: identity?.id,
        ...traceFields(identity?.traceparent),
        ...rejection,
      },
      'record became a dead letter',
      rejection.reason,
    );
  }
}
