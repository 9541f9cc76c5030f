import type { Laboratory, LogName } from './laboratory.ts';
import type { Ledger } from './ledger.ts';
import type { Traffic, TrafficOptions } from './traffic.ts';

/** Tools that a fault may use in addition to the laboratory while it is injected. */
export interface FaultContext {
  readonly ledger: Ledger;
  readonly traffic: Traffic;
  /** Numbers in [0, 1) that repeat themselves for the same seed. */
  readonly random: () => number;
  /** How often it was injected before. */
  readonly round: number;
  /** Fails the run with this sentence. */
  problem(text: string): void;
}

/** Something that goes wrong while the product is at work. */
export interface Fault {
  readonly name: string;
  /** What happens, in a sentence without a full stop. */
  readonly about: string;
  readonly logs: readonly LogName[];
  /** The limit of the longest stall. */
  readonly bound: string | Readonly<Record<LogName, string>>;
  /** Where it needs a laboratory of its own, such as one on a small disk; else it shares one with others. */
  readonly startLaboratory?: (log: LogName) => Promise<Laboratory>;
  /** Brings it about once under traffic, and resolves when what it broke is whole again. */
  inject(lab: Laboratory, context: FaultContext): Promise<void>;
  /**
   * Looks at more than every reconciliation does; called after the traffic, when all is stored. Default: only what lost
   * against other content may be a dead letter.
   */
  verify?(lab: Laboratory, context: FaultContext): Promise<void>;
  /** How often it is injected; at least three times. Default 3. */
  readonly times?: number;
  /** Instead of `times`: it is injected until so many milliseconds have passed. */
  readonly forMs?: number;
  readonly traffic?: TrafficOptions;
  /** The processes' clocks differ meanwhile, so that their times do not tell how soon a record was stored. */
  readonly clocksDiffer?: boolean;
}
