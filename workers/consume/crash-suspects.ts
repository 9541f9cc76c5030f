import type { Clock } from '../../shared/clock.ts';
import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { PositionRow } from '../../shared/postgres/log-positions.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import {
  countAloneStart,
  countStart,
  type PartitionKey,
  revertAloneStart,
  revertStart,
} from '../sql/log-positions.ts';
import { LOCK_TIMEOUT_MS } from './batch-transaction.ts';

export interface CrashSuspectsDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly batchRecordsMax: number;
}

/**
 * Isolates records that crash the process. Every start of a partition is counted in the database
 * until a commit clears the count. After several starts without a commit, the records that the
 * first batch can have reached are suspects. Suspects are stored in batches of 1, 2, 4, …, so that
 * a record that crashes the process is soon stored alone. This delays other suspects only a little.
 * Starts at a record that is stored alone are counted for that record.
 */
export class CrashSuspects {
  readonly #deps: CrashSuspectsDeps;
  readonly #key: PartitionKey;
  readonly #generation: number;
  #started = false;
  /** Whether this start is counted and no commit has cleared the count. */
  #counted = false;
  /** Records below this offset are suspects. */
  #end: bigint | undefined;
  /** Number of suspects in the next batch. */
  #batchRecords = 1;
  /** The record that is counted as stored alone, with its earlier starts. */
  #alone: { readonly offset: bigint; readonly deaths: number } | undefined;

  constructor(deps: CrashSuspectsDeps, key: PartitionKey, generation: number) {
    this.#deps = deps;
    this.#key = key;
    this.#generation = generation;
  }

  /** Returns whether the start is counted, which must happen before the first batch. */
  get started(): boolean {
    return this.#started;
  }

  /** Counts the start of the partition. */
  async countStart(batch: LogBatch): Promise<PositionRow> {
    return await this.#inTransaction((client) =>
      countStart(client, this.#key, {
        generation: this.#generation,
        batchRecordsMax: this.#deps.batchRecordsMax,
        latest: batch.latest,
        nowMs: this.#deps.clock.nowMs(),
      }),
    );
  }

  noteStart({ suspectEnd }: PositionRow): void {
    this.#started = true;
    this.#counted = true;
    this.#end = suspectEnd ?? undefined;
    this.#batchRecords = 1;
  }

  /** Returns the records before the first suspect, the suspects, and the rest. */
  split(
    records: readonly LogRecord[],
    nextOffset: bigint,
  ): [before: readonly LogRecord[], suspects: readonly LogRecord[], rest: readonly LogRecord[]] {
    const end = this.#end;
    if (end === undefined) return [[], [], records];
    const suspects = records.filter(({ offset }) => offset >= nextOffset && offset < end);
    if (suspects.length === 0) return [[], [], records];
    const before = records.filter(({ offset }) => offset < suspects[0]!.offset);
    return [before, suspects, records.slice(before.length + suspects.length)];
  }

  /** Returns the number of suspects in the next batch; doubles with every call. */
  nextBatchRecords(): number {
    const records = this.#batchRecords;
    this.#batchRecords *= 2;
    return records;
  }

  /**
   * Counts that this start stores a record alone, once per start. Resolves with the number of
   * earlier starts that stored the record alone, all of which ended without a commit.
   */
  async countAloneStart(offset: bigint): Promise<number> {
    if (this.#alone?.offset === offset) return this.#alone.deaths;
    const deaths = await this.#inTransaction((client) =>
      countAloneStart(client, this.#key, offset, this.#deps.clock.nowMs()),
    );
    this.#alone = { offset, deaths };
    return deaths;
  }

  /**
   * Reverts that count because the record has to be retried. If that fails, the record stays
   * counted.
   */
  async revertAloneStart(offset: bigint): Promise<void> {
    if (this.#alone?.offset !== offset) return;
    try {
      await this.#inTransaction((client) =>
        revertAloneStart(client, this.#key, offset, this.#deps.clock.nowMs()),
      );
      this.#alone = undefined;
    } catch {
      // The database is unavailable, which is also why the record is retried.
    }
  }

  noteCommit(nextOffset: bigint, startCounted: boolean): void {
    if (this.#end !== undefined && nextOffset >= this.#end) this.#end = undefined;
    this.#counted &&= startCounted;
  }

  /** Reverts the count of the start: the partition was released in order, so this was no crash. */
  async revertStart(): Promise<void> {
    if (!this.#counted) return;
    this.#counted = false;
    this.#started = false;
    const aloneOffset = this.#alone?.offset ?? null;
    await this.#inTransaction((client) =>
      revertStart(client, this.#key, aloneOffset, this.#deps.clock.nowMs()),
    );
    this.#alone = undefined;
  }

  /**
   * Runs work on the position in a transaction, with retries. The partition's previous worker may
   * be frozen in a transaction that locks the position.
   */
  #inTransaction<T>(work: (client: Queryable) => Promise<T>): Promise<T> {
    return inTransaction(this.#deps.pool, work, { lockTimeoutMs: LOCK_TIMEOUT_MS });
  }
}
