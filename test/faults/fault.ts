import type { Laboratory, LogName } from './laboratory.ts';
import type { Ledger } from './ledger.ts';
import type { Traffic, TrafficOptions } from './traffic.ts';

/** Tools that a fault may use in addition to the laboratory while it is injected. */
export interface FaultContext {
  readonly ledger: Ledger;
  readonly traffic: Traffic;
  /** Returns numbers in [0, 1) that repeat for the same seed. */
  readonly random: () => number;
  /** Number of earlier injections of the fault in this run. */
  readonly round: number;
  /** Fails the run with this sentence. */
  problem(text: string): void;
}

/** A fault that is injected while the product runs. */
export interface Fault {
  readonly name: string;
  /** Description of the fault, in a sentence without a full stop. */
  readonly description: string;
  readonly logs: readonly LogName[];
  /** The limit of the longest stall, as text. */
  readonly stallLimit: string | Readonly<Record<LogName, string>>;
  /**
   * Starts a separate laboratory, such as one on a small disk. By default all faults share a
   * laboratory.
   */
  readonly startLaboratory?: (log: LogName) => Promise<Laboratory>;
  /** Injects the fault once under traffic, and resolves when everything it broke is restored. */
  inject(lab: Laboratory, context: FaultContext): Promise<void>;
  /**
   * Checks more than every reconciliation does. Called after the traffic, when all records are
   * stored. Default: only conflicting records may be dead letters.
   */
  verify?(lab: Laboratory, context: FaultContext): Promise<void>;
  /** Number of injections, at least 3. Default 3. */
  readonly times?: number;
  /** Replaces `times`: the fault is injected repeatedly for this number of milliseconds. */
  readonly forMs?: number;
  readonly traffic?: TrafficOptions;
  /**
   * Whether the processes' clocks differ during the fault. Their times then do not show how soon a
   * record was stored.
   */
  readonly clocksDiffer?: boolean;
  /**
   * Whether counts must equal a recount of the stored rows. Default true. False if workers of a release
   * that did not count store some of the rows.
   */
  readonly comparesCounts?: boolean;
}
