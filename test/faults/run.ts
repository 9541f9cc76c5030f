import { setTimeout as delay } from 'node:timers/promises';
import type { Fault, FaultContext } from './fault.ts';
import type { Laboratory, LogName } from './laboratory.ts';
import { createLedger, longestStallMs } from './ledger.ts';
import { type Reconciliation, reconcile } from './reconcile.ts';
import { type Recount, recountAll } from './recount-all.ts';
import { startTraffic } from './traffic.ts';
import { verifyOnlyConflictsDeadLettered } from './watch.ts';

/** One row of the result table. */
export interface Row extends Omit<Reconciliation, 'storedAfterSecondsMax'> {
  readonly fault: string;
  readonly log: LogName;
  readonly injected: number;
  readonly requests: number;
  /** Number of records answered 2xx. */
  readonly accepted: number;
  /** Number of conflicting requests answered 409. */
  readonly conflicts: number;
  /** Number of requests that got 503 or no answer. */
  readonly failed: number;
  /** Number of all stored messages whose counts were compared with a recount. */
  readonly recounted: number;
  /** The longest time in which a sending tenant had no record accepted, in milliseconds. */
  readonly longestStallMs: number;
  readonly stallLimit: string;
  /** The maximum of the Reconciliation; undefined if the clocks differ. */
  readonly storedAfterSecondsMax: number | undefined;
}

export interface RunOptions {
  /** Minimum number of records to be accepted. */
  readonly records: number;
  readonly random: () => number;
  /** See TrafficOptions; undefined for the fault's own value. */
  readonly roundMs?: number | undefined;
}

/**
 * The fault is injected at a random moment of this span, once the records between two injections
 * are accepted.
 */
const MOMENT_SPAN_MS = 300;

/** Injects a fault repeatedly under traffic, and reconciles what was sent with what was stored. */
export async function runFault(lab: Laboratory, fault: Fault, options: RunOptions): Promise<Row> {
  const { records, random } = options;
  const times = fault.times ?? 3;
  const startedMs = performance.now();
  const isOver = (round: number) =>
    fault.forMs === undefined ? round >= times : performance.now() - startedMs > fault.forMs;
  const ledger = createLedger(`${fault.name}-${Math.floor(random() * 1e6)}`);
  const found: string[] = [];
  lab.receivers.forget();
  const traffic = startTraffic(lab, ledger, {
    ...fault.traffic,
    ...(options.roundMs === undefined ? {} : { roundMs: options.roundMs }),
  });
  const contextOf = (round: number): FaultContext => ({
    ledger,
    traffic,
    random,
    round,
    problem: (text) => void found.push(text),
  });
  let injected = 0;
  let reconciliation: Reconciliation = NOTHING;
  let recount: Recount = { messages: 0, problems: [] };
  try {
    for (let round = 0; !isOver(round); round++) {
      await traffic.accepted(Math.ceil(records / (times + 1)));
      await delay(random() * MOMENT_SPAN_MS);
      await fault.inject(lab, contextOf(round));
      injected += 1;
    }
    if (ledger.accepted < records) await traffic.accepted(records - ledger.accepted);
    await Promise.all(lab.parts.map((part) => part.ready()));
    await traffic.stop();
    reconciliation = await reconcile(lab, ledger);
    if (fault.comparesCounts ?? true) recount = await recountAll(lab);
    await (fault.verify ?? verifyOnlyConflictsDeadLettered)(lab, contextOf(injected));
  } catch (error) {
    found.push(describeError(error));
    await traffic.stop().catch((cause) => found.push(describeError(cause)));
  }
  return {
    fault: fault.name,
    log: lab.log,
    injected,
    requests: ledger.requests,
    accepted: ledger.accepted,
    conflicts: ledger.conflictRequests,
    failed: ledger.failedRequests,
    ...reconciliation,
    recounted: recount.messages,
    storedAfterSecondsMax: fault.clocksDiffer ? undefined : reconciliation.storedAfterSecondsMax,
    longestStallMs: longestStallMs(ledger),
    stallLimit: stallLimitOf(fault, lab.log),
    problems: [...reconciliation.problems, ...recount.problems, ...found],
  };
}

const NOTHING: Reconciliation = {
  lost: 0,
  duplicated: 0,
  outOfOrder: 0,
  deadLettered: 0,
  storedAfterSecondsMax: 0,
  problems: [],
};

/** Returns the row of a fault that was skipped. */
export function rowWithout(fault: Fault, log: LogName, why: string): Row {
  return {
    ...NOTHING,
    fault: fault.name,
    log,
    injected: 0,
    requests: 0,
    accepted: 0,
    conflicts: 0,
    failed: 0,
    recounted: 0,
    longestStallMs: 0,
    stallLimit: stallLimitOf(fault, log),
    problems: [why],
  };
}

/** Returns the limit of a fault's longest stall on a log. */
export function stallLimitOf({ stallLimit }: Fault, log: LogName): string {
  return typeof stallLimit === 'string' ? stallLimit : stallLimit[log];
}

function describeError(error: unknown): string {
  const { message, cause } = error as Error;
  return cause === undefined ? message : `${message} (${describeError(cause)})`;
}
