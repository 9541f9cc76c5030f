import type { Kind } from '../../shared/contracts/kinds.ts';

/**
 * The caller's knowledge of a record. `accepted`: a 2xx. `refused`: an error answer; after a 503
 * the record may still be stored. `unknown`: no answer at all.
 */
export type Answer = 'accepted' | 'refused' | 'unknown';

/** One record and the result of all attempts to send it. */
export interface Sent {
  /** Unique text in the record's content, which identifies the record whatever its id is. */
  readonly marker: string;
  readonly kind: Kind;
  readonly tenantId: string;
  /**
   * The key that orders one sender's records: records with the same key are sent one after another.
   */
  readonly entity: string;
  /** Sequence number within the entity, in ascending order. */
  readonly seq: number;
  /** The caller's id. Records without an id are sent only once. */
  readonly id: string | undefined;
  answer: Answer;
  /** Name of the gateway that accepted the record. */
  gateway: string | undefined;
}

/** Another content sent under the id of an accepted record. */
export interface Conflict {
  readonly of: Sent;
  readonly marker: string;
  /**
   * `refused` is a 409 or FAIL_CONFLICT. `accepted` is possible within the remaining window; the
   * record then becomes a dead letter.
   */
  answer: Answer;
}

/** All records sent in one run of a fault, with their answers. */
export interface Ledger {
  /** Prefix of all markers of the run. */
  readonly prefix: string;
  readonly sent: Sent[];
  readonly conflicts: Conflict[];
  /** Number of requests sent. */
  requests: number;
  /** Number of conflicting requests that were refused with 409, as required. */
  conflictRequests: number;
  /** Number of requests that got no answer, 503, or a 400 with unavailable records. */
  failedRequests: number;
  /**
   * Descriptions of the failed requests that should have been answered 2xx. Conflicting requests do
   * not count: they go to the gateway that accepted the id, even while it is down.
   */
  readonly failures: string[];
  /** Number of records accepted so far. */
  accepted: number;
  /** Answers that no fault explains, such as a 500. */
  readonly wrongAnswers: string[];
  /**
   * By tenant: when its last record was accepted, and the longest time between two accepted
   * records, in milliseconds.
   */
  readonly stalls: Map<string, { lastMs: number; longestMs: number }>;
}

export function createLedger(prefix: string): Ledger {
  return {
    prefix,
    sent: [],
    conflicts: [],
    requests: 0,
    conflictRequests: 0,
    failedRequests: 0,
    failures: [],
    accepted: 0,
    wrongAnswers: [],
    stalls: new Map(),
  };
}

/** Records that the gateway accepted the record. */
export function accept(ledger: Ledger, sent: Sent, gateway: string): void {
  sent.answer = 'accepted';
  sent.gateway = gateway;
  ledger.accepted += 1;
  const nowMs = performance.now();
  const stall = ledger.stalls.get(sent.tenantId) ?? { lastMs: nowMs, longestMs: 0 };
  stall.longestMs = Math.max(stall.longestMs, nowMs - stall.lastMs);
  stall.lastMs = nowMs;
  ledger.stalls.set(sent.tenantId, stall);
}

/** Restarts the stall timers after a pause in which nobody sent. */
export function restartStalls({ stalls }: Ledger): void {
  for (const stall of stalls.values()) stall.lastMs = performance.now();
}

/** Returns the longest time in which a sending tenant had no record accepted, in milliseconds. */
export function longestStallMs({ stalls }: Ledger): number {
  return Math.max(0, ...[...stalls.values()].map(({ longestMs }) => longestMs));
}

/**
 * Returns a description of the failures after the first `before` ones; undefined if there are none.
 */
export function failuresSince({ failures }: Ledger, before: number): string | undefined {
  const counts = new Map<string, number>();
  for (const failure of failures.slice(before)) counts.set(failure, (counts.get(failure) ?? 0) + 1);
  if (counts.size === 0) return undefined;
  return `${failures.length - before} requests failed: ${[...counts].map(([what, count]) => `${what} (${count})`).join(', ')}`;
}
