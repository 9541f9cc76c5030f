import { retryUntilSuccess } from '../../shared/async.ts';
import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import {
  ensureTimePartitions,
  isTimePartitioned,
  type TimePartitionedTable,
} from '../../shared/postgres/time-partitions.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { type DecodeContext, toCandidate } from './decode.ts';
import { classifyFault, type Fault } from './faults.ts';
import type { TopicMetrics } from './metrics.ts';
import type { WaitsFor } from './partition-status.ts';
import type { TransactionSlots } from './transaction-slots.ts';

export interface RetryDeps<Row> {
  readonly pool: Pool;
  readonly logger: Logger;
  readonly slots: TransactionSlots;
  readonly metrics: TopicMetrics;
  readonly kind: RecordKind<Row>;
  decodeContext(): DecodeContext;
  /** Called when the work begins to wait for a slot, and when it gets one. */
  onWait(waitsFor: WaitsFor): void;
  /** Called with the reason of each failure that is retried, and with undefined after a success. */
  onFault(fault: Fault | undefined): void;
}

export interface StoreMode {
  /** Whether no other transaction may run concurrently. */
  readonly alone: boolean;
  /** Called after a failure that may be retried, before the slot is released. */
  readonly onRetry?: () => Promise<void>;
}

export const SHARED: StoreMode = { alone: false };

/**
 * Thrown if several records failed together, perhaps because of their number: fewer may succeed.
 */
export class BatchTooLarge extends Error {
  override readonly name = 'BatchTooLarge';
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.text);
    this.fault = fault;
  }
}

/**
 * The partitioned table that batches of all kinds write, in addition to the tables of their kind.
 */
const WEBHOOK_TABLE = 'webhook_messages';

const BACKOFF = { minMs: 100, maxMs: 5000 };
/**
 * Attempts before a single refused record is given up. Several records are bisected after the first
 * attempt.
 */
const ATTEMPTS_ALONE = 3;
/**
 * Attempts before a batch that takes too long counts as too large, even if no other work succeeds
 * meanwhile.
 */
const ATTEMPTS_IN_TIME = 3;

/**
 * Runs the work in a transaction slot until it succeeds, with backoff, while failures are
 * temporary. `records` are the records that the work stores; missing time partitions for these
 * records are created.
 *
 * Rejects if a retry is useless:
 * - with the error of the record, if one record cannot be stored;
 * - with {@link BatchTooLarge}, if several records fail that may succeed in smaller batches;
 * - with POSITION_LOST, if the log was replaced since the last read;
 * - with the reason of the batch's signal, if the batch was aborted.
 */
export async function retryUntilStored<Row, T>(
  deps: RetryDeps<Row>,
  batch: LogBatch,
  work: () => Promise<T>,
  { mode = SHARED, records = [] }: { mode?: StoreMode; records?: readonly LogRecord[] } = {},
): Promise<T> {
  return await new RetryingStore(deps, batch, mode, records).run(work);
}

class RetryingStore<Row> {
  readonly #deps: RetryDeps<Row>;
  readonly #batch: LogBatch;
  readonly #mode: StoreMode;
  readonly #records: readonly LogRecord[];
  #refusals = 0;
  /** Number of successes of other work before the first attempt. */
  #successesBefore: number | undefined;
  #missingPartition: Fault | undefined;
  /** Set if the records must be bisected after the pause. */
  #tooLarge: BatchTooLarge | undefined;
  /**
   * Tables whose time partitions were created. If a table still lacks a partition afterwards, the
   * work is not repeated immediately again.
   */
  readonly #partitionedTables = new Set<string | undefined>();

  constructor(deps: RetryDeps<Row>, batch: LogBatch, mode: StoreMode, records: readonly LogRecord[]) {
    this.#deps = deps;
    this.#batch = batch;
    this.#mode = mode;
    this.#records = records;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this.#batch;
    const stored = await retryUntilSuccess(async () => ({ result: await this.#attempt(work) }), {
      backoff: BACKOFF,
      signal,
      onFailure: (error, failures) => this.#onFailure(error, failures),
    });
    signal.throwIfAborted();
    this.#deps.onFault(undefined);
    return stored!.result;
  }

  /** Runs the work once, and again immediately if the failure allows that. */
  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      this.#batch.signal.throwIfAborted();
      if (this.#tooLarge) throw this.#tooLarge;
      await this.#createMissingPartitions();
      try {
        return await this.#inSlot(work);
      } catch (error) {
        if (!this.#mayRepeat(classifyFault(error))) throw error;
      }
    }
  }

  async #inSlot<T>(work: () => Promise<T>): Promise<T> {
    const { slots, metrics, onWait } = this.#deps;
    const waitsSinceMs = performance.now();
    const attempt = async () => {
      metrics.endStage('slot', waitsSinceMs);
      onWait('database');
      this.#successesBefore ??= slots.successes();
      try {
        return await work();
      } catch (error) {
        metrics.countFailure(error);
        if (classifyFault(error).kind !== 'stop') await this.#mode.onRetry?.();
        throw error;
      }
    };
    onWait('slot');
    return await (this.#mode.alone ? slots.alone(attempt) : slots.shared(attempt));
  }

  /**
   * Returns whether to repeat the work without a pause: a partition was missing, or a record was
   * refused.
   */
  #mayRepeat(fault: Fault): boolean {
    if (fault.kind === 'no-partition' && !this.#partitionedTables.has(fault.table)) {
      this.#partitionedTables.add(fault.table);
      this.#missingPartition = fault;
      return true;
    }
    if (!isRefusal(fault) || this.#records.length !== 1) return false;
    this.#refusals += 1;
    return this.#refusals < ATTEMPTS_ALONE;
  }

  /** Throws if a retry is useless. */
  #onFailure(error: unknown, failures: number): void {
    if (error instanceof BatchTooLarge) throw error;
    const fault = classifyFault(error);
    const several = this.#records.length > 1;
    if (fault.kind === 'bound' && several) throw new BatchTooLarge(fault);
    if (fault.kind !== 'wait' && fault.kind !== 'unexpected') throw error;
    const isolated = fault.suspected !== undefined && this.#othersSucceed();
    const alone = isolated && this.#records.length === 1 && !fault.nodeDown;
    this.#deps.onFault(alone ? this.#withPosition(fault) : fault);
    const late = fault.suspected === 'time' && failures >= ATTEMPTS_IN_TIME;
    if (several && (isolated || late)) this.#tooLarge = new BatchTooLarge(fault);
  }

  /**
   * Returns whether other work has succeeded since the first attempt. If so, the records are
   * suspects, not the database.
   */
  #othersSucceed(): boolean {
    return this.#successesBefore !== undefined && this.#deps.slots.successes() > this.#successesBefore;
  }

  /**
   * Returns the fault with the record's position in its text, because only this record is stalled.
   */
  #withPosition(fault: Fault): Fault {
    const { topic, partition } = this.#deps.decodeContext();
    const position = `${topic}, partition ${partition}, offset ${this.#records[0]!.offset}`;
    return { ...fault, text: `${position}: ${fault.text}; other records are stored` };
  }

  async #createMissingPartitions(): Promise<void> {
    if (!this.#missingPartition) return;
    const { table } = this.#missingPartition;
    const tables = table === undefined ? [...this.#deps.kind.timePartitioned, WEBHOOK_TABLE] : [table];
    for (const one of tables.filter(isTimePartitioned)) await this.#createPartitions(one);
    this.#missingPartition = undefined;
  }

  async #createPartitions(table: TimePartitionedTable): Promise<void> {
    const { pool, logger, kind, decodeContext } = this.#deps;
    // Rows of tables that belong to no kind have the current time.
    const times = kind.timePartitioned.includes(table)
      ? await this.#acceptanceTimes()
      : [decodeContext().nowMs];
    if (times.length === 0) return;
    const names = await ensureTimePartitions(pool, table, Math.min(...times), Math.max(...times));
    logger.info({ table, names }, 'time partitions created for records');
  }

  async #acceptanceTimes(): Promise<number[]> {
    const { kind, decodeContext } = this.#deps;
    const times = await mapInSlices(this.#records, (record) => {
      const { outcome } = toCandidate(kind, record, decodeContext());
      return outcome.ok ? [outcome.record.event.acceptedAtMs] : [];
    });
    return times.flat();
  }
}

/** Returns whether a record alone causes the fault, regardless of the batch and the worker. */
export function isRefusal({ kind }: Fault): boolean {
  return kind === 'record' || kind === 'bound';
}
