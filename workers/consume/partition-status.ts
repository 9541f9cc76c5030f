import type { Clock } from '../../shared/clock.ts';
import type { Fault } from './faults.ts';
import type { TransactionSlots } from './transaction-slots.ts';

/** The reason why a partition has been busy with the same records for seconds, without a fault. */
export interface SlowReason {
  readonly sinceMs: number;
  /** Text for operators. */
  readonly text: string;
}

/** The resource that a batch waits for. */
export type WaitsFor = 'slot' | 'database';

const SLOW_AFTER_MS = 5000;
/**
 * Milliseconds until a partition counts as slow while transactions of other partitions end. Before
 * that, load explains the wait.
 */
const SLOW_BESIDE_OTHERS_AFTER_MS = 30_000;

/**
 * The texts name the batch, not a statement, because the database may have answered some of its
 * statements.
 */
const SLOW_TEXTS: Readonly<Record<WaitsFor, (seconds: number) => string>> = {
  slot: (seconds) => `a batch has waited for its turn for ${seconds} s`,
  database: (seconds) => `the database has not finished a batch for ${seconds} s`,
};

/** The activity of a partition, for readiness and liveness. */
export class PartitionStatus {
  readonly #clock: Clock;
  #busySinceMs: number | undefined;
  #committedMs: number | undefined;
  #fault: Fault | undefined;
  #waitsFor: WaitsFor = 'slot';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns when the partition became busy with its current records; undefined while it has none.
   */
  get busySinceMs(): number | undefined {
    return this.#busySinceMs;
  }

  /** Returns the time of the last commit; undefined before the first commit. */
  get committedMs(): number | undefined {
    return this.#committedMs;
  }

  /** Returns why the partition is stalled; undefined while it is not. */
  get fault(): Fault | undefined {
    return this.#fault;
  }

  /** Returns whether the partition is neither busy nor stalled. */
  get idle(): boolean {
    return this.#busySinceMs === undefined && !this.#fault;
  }

  beginBatch(): void {
    this.#busySinceMs = this.#clock.nowMs();
  }

  endBatch(): void {
    this.#busySinceMs = undefined;
  }

  noteCommit(): void {
    this.#committedMs = this.#clock.nowMs();
    this.#busySinceMs = this.#committedMs;
  }

  noteWait(waitsFor: WaitsFor): void {
    this.#waitsFor = waitsFor;
  }

  /** Records a fault. Returns whether its reason differs from that of the previous fault. */
  noteFault(fault: Fault): boolean {
    const isNew = this.#fault?.text !== fault.text;
    this.#fault = fault;
    return isNew;
  }

  clearFault(): void {
    this.#fault = undefined;
  }

  /**
   * Returns why the partition is slow; undefined unless it has been busy with the same records for
   * seconds.
   */
  slowBecause(nowMs: number, slots: Pick<TransactionSlots, 'sinceEndMs'>): SlowReason | undefined {
    const sinceMs = this.#busySinceMs;
    const othersEnd = slots.sinceEndMs() < SLOW_AFTER_MS;
    const afterMs = othersEnd ? SLOW_BESIDE_OTHERS_AFTER_MS : SLOW_AFTER_MS;
    if (sinceMs === undefined || nowMs - sinceMs <= afterMs) return undefined;
    return { sinceMs, text: SLOW_TEXTS[this.#waitsFor](Math.floor((nowMs - sinceMs) / 1000)) };
  }
}
