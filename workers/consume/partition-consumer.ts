import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import type { PartitionKey } from '../sql/log-positions.ts';
import { BisectingStore } from './bisecting-store.ts';
import { CrashSuspects } from './crash-suspects.ts';
import { classifyFault, type Fault } from './faults.ts';
import { PartitionStatus, type SlowReason } from './partition-status.ts';
import type { StoredPosition } from './position-fencing.ts';
import { traceFieldsOfRecords } from './record-trace.ts';
import type { RoundMember, Rounds } from './rounds.ts';
import type { StoreBatchDeps } from './store-batch.ts';
import type { TransactionSlots } from './transaction-slots.ts';

export interface PartitionDeps extends StoreBatchDeps {
  readonly logger: Logger;
  readonly slots: TransactionSlots;
  readonly topic: string;
  readonly batchRecordsMax: number;
  /** Records accepted longer ago than this become dead letters, in milliseconds. */
  readonly recordAgeMaxMs: number;
  /** How long the topic keeps its records, in milliseconds. */
  readonly topicRetentionMs: number;
}

const RETENTION_WARNING_INTERVAL_MS = 60_000;
/** Crashes at a record after which it becomes a dead letter without being decoded. */
const DEATHS_MAX = 3;

/** Consumes one partition from its assignment to its release, one batch at a time. */
export class PartitionConsumer<Row> {
  readonly #deps: PartitionDeps;
  readonly #key: PartitionKey;
  readonly #generation: number;
  readonly #status: PartitionStatus;
  readonly #suspects: CrashSuspects;
  readonly #store: BisectingStore<Row>;
  readonly #rounds: Rounds<Row>;
  readonly #member: RoundMember<Row>;
  /**
   * Whether the records may be stored together with those of other partitions: the last transaction
   * with this partition's records succeeded, and no start is counted.
   */
  #joinsRounds = false;
  #nextOffset: bigint;
  /** The records of the batch that is being stored. */
  #records: readonly LogRecord[] = [];
  #retentionWarnedMs = Number.NEGATIVE_INFINITY;

  constructor(
    deps: PartitionDeps,
    kind: RecordKind<Row>,
    rounds: Rounds<Row>,
    partition: number,
    start: StoredPosition,
  ) {
    this.#deps = deps;
    this.#rounds = rounds;
    this.#key = { topic: deps.topic, partition };
    this.#generation = start.generation;
    this.#nextOffset = start.nextOffset;
    this.#status = new PartitionStatus(deps.clock);
    this.#suspects = new CrashSuspects(deps, this.#key, start.generation);
    this.#store = new BisectingStore(deps, kind, {
      ...this.#key,
      generation: start.generation,
      onWait: (waitsFor) => this.#status.noteWait(waitsFor),
      onFault: (fault) => (fault ? this.#noteFault(fault) : this.#status.clearFault()),
      onCommit: ({ nextOffset, startCounted }) => {
        this.#nextOffset = nextOffset;
        this.#status.noteCommit();
        this.#suspects.noteCommit(nextOffset, startCounted);
        this.#joinsRounds = !startCounted;
      },
    });
    this.#member = {
      partition,
      generation: start.generation,
      decode: (records) => this.#store.decode(records),
      onWait: (waitsFor) => this.#status.noteWait(waitsFor),
      onCommit: (result) => this.#store.noteCommit(result),
    };
  }

  get status(): Pick<PartitionStatus, 'busySinceMs' | 'committedMs' | 'fault'> {
    return this.#status;
  }

  /** Returns the offset up to which this worker knows the partition to be stored. */
  get nextOffset(): bigint {
    return this.#nextOffset;
  }

  /**
   * Returns the position that this worker last stored or read; undefined while it is busy, or
   * stalled at its last batch.
   */
  storedPosition(): StoredPosition | undefined {
    if (!this.#status.idle) return undefined;
    return { generation: this.#generation, nextOffset: this.#nextOffset };
  }

  /**
   * Returns why the partition is slow; undefined unless it has been busy with the same records for
   * seconds.
   */
  slowBecause(nowMs: number): SlowReason | undefined {
    return this.#status.slowBecause(nowMs, this.#deps.slots);
  }

  /**
   * Stores a batch. Resolves when all records are stored or dead letters. Rejects if the partition
   * was revoked, or if its records must not be stored because the log was replaced.
   */
  async handle(batch: LogBatch): Promise<void> {
    this.#status.beginBatch();
    this.#records = batch.records;
    try {
      if (!this.#suspects.started) await this.#start(batch);
      this.#warnOfRetention(batch);
      const stored = this.#joinsRounds && !this.#status.fault ? await this.#storeInRounds(batch) : 0;
      const records = batch.records.slice(stored);
      const [before, suspects, rest] = this.#suspects.split(records, this.#nextOffset);
      await this.#store.storeInOrder(batch, before);
      await this.#storeSuspects(batch, suspects);
      await this.#store.storeInOrder(batch, rest);
      this.#status.clearFault();
    } catch (error) {
      if (batch.signal.aborted) {
        this.#status.clearFault();
        await this.release();
      } else this.#noteFault(classifyFault(error));
      throw error;
    } finally {
      this.#records = [];
      this.#status.endBatch();
    }
  }

  /**
   * Records that the partition was released in order, so that its start is not counted as a crash.
   */
  async release(): Promise<void> {
    try {
      await this.#suspects.revertStart();
    } catch (error) {
      this.#deps.logger.warn(
        { ...this.#key, reason: classifyFault(error).text },
        'partition release not stored, start counts as a crash',
      );
    }
  }

  async #start(batch: LogBatch): Promise<void> {
    const row = await this.#store.retryUntilDone(batch, () => this.#suspects.countStart(batch));
    this.#suspects.noteStart(row);
    const { nextOffset, suspectEnd, starts } = row;
    this.#nextOffset = nextOffset;
    if (suspectEnd === null) return;
    this.#deps.logger.warn(
      { ...this.#key, nextOffset: String(nextOffset), suspectEnd: String(suspectEnd), starts },
      'earlier starts ended without a commit, storing records in small batches',
    );
  }

  /**
   * Stores the batch together with records of other partitions. Resolves with the number of stored
   * records, which are the first of the batch.
   */
  async #storeInRounds(batch: LogBatch): Promise<number> {
    const stored = await this.#rounds.store(this.#member, batch);
    batch.signal.throwIfAborted();
    if (stored < batch.records.length) this.#joinsRounds = false;
    return stored;
  }

  /** Stores suspects in batches of 1, 2, 4, …; see {@link CrashSuspects}. */
  async #storeSuspects(batch: LogBatch, suspects: readonly LogRecord[]): Promise<void> {
    for (let at = 0; at < suspects.length; ) {
      const chunk = suspects.slice(at, at + this.#suspects.nextBatchRecords());
      if (chunk.length === 1) await this.#storeAlone(batch, chunk[0]!);
      else await this.#store.storeInOrder(batch, chunk);
      at += chunk.length;
    }
  }

  /**
   * Stores a record while nothing else is decoded or stored in this process, so that a crash has
   * only one suspect. If the record has to be retried, reverts its count before other transactions
   * run.
   */
  async #storeAlone(batch: LogBatch, record: LogRecord): Promise<void> {
    const { offset } = record;
    await this.#store.storeAlone(batch, record, {
      beforeDecoding: async () => {
        const deaths = await this.#suspects.countAloneStart(offset);
        if (deaths < DEATHS_MAX) return undefined;
        this.#deps.logger.error(
          { ...this.#key, offset: String(offset) },
          'record quarantined, it ends the process',
        );
        const text = `the worker ended ${deaths} times while it stored only this record`;
        return { reason: 'crash', stage: 'store', text };
      },
      onRetry: () => this.#suspects.revertAloneStart(offset),
    });
  }

  #noteFault(fault: Fault): void {
    if (!this.#status.noteFault(fault)) return;
    const unstored = this.#records.filter(({ offset }) => offset >= this.#nextOffset);
    const offset = String(this.#nextOffset);
    this.#deps.logger.warn(
      { ...this.#key, offset, fault: fault.kind, reason: fault.text, ...traceFieldsOfRecords(unstored) },
      'partition stalled',
    );
  }

  #warnOfRetention(batch: LogBatch): void {
    const { clock, topicRetentionMs: retentionMs, logger } = this.#deps;
    const nowMs = clock.nowMs();
    const oldest = batch.records.find((record) => record.offset >= this.#nextOffset);
    const ageMs = oldest ? nowMs - oldest.timestampMs : 0;
    if (ageMs < retentionMs / 2 || nowMs - this.#retentionWarnedMs < RETENTION_WARNING_INTERVAL_MS) return;
    this.#retentionWarnedMs = nowMs;
    logger.warn(
      { ...this.#key, ageMs, retentionMs },
      'lag exceeds half of the retention, records may be lost',
    );
  }
}
