import type { Kind } from '../../shared/contracts/kinds.ts';

/**
 * What the caller knows of a record: `accepted` (2xx), `refused` (an answer that says that it was not taken, and that may
 * still be stored where it was 503), `unknown` (no answer at all).
 */
export type Answer = 'accepted' | 'refused' | 'unknown';

/** One record that was sent, over all of its attempts. */
export interface Sent {
  /** In the record's content, so that it is found again whatever id it has. Unique. */
  readonly marker: string;
  readonly kind: Kind;
  readonly tenantId: string;
  /** The key that orders one sender's records: records with the same key are sent one after another. */
  readonly entity: string;
  /** Rises along the records of an entity. */
  readonly seq: number;
  /** The caller's id; records without one are sent once only. */
  readonly id: string | undefined;
  answer: Answer;
  /** Which gateway accepted it. */
  gateway: string | undefined;
}

/** Other content under the id of a record that was accepted before. */
export interface Conflict {
  readonly of: Sent;
  readonly marker: string;
  /** `refused` is a 409 or FAIL_CONFLICT; `accepted` is possible in the window that remains, and ends as a dead letter. */
  answer: Answer;
}

/** Everything that one run of a fault sent, and how it was answered. */
export interface Ledger {
  /** All markers of the run begin with it. */
  readonly prefix: string;
  readonly sent: Sent[];
  readonly conflicts: Conflict[];
  /** Requests made. */
  requests: number;
  /** Requests with other content under an accepted id that were refused for it (409), as they must be. */
  conflictRequests: number;
  /** Requests of all kinds that got 503 (or a 400 that says it of records) or no answer. */
  failedRequests: number;
  /**
   * Those of them that should have been answered 2xx, in words. Not among them: other content under an accepted id, which
   * goes to the gateway that accepted it, also while that one is down.
   */
  readonly failures: string[];
  /** Records accepted so far. */
  accepted: number;
  /** Answers that no fault explains, such as a 500. */
  readonly wrongAnswers: string[];
  /** When each tenant's last record was accepted, and the longest time between two of them, in milliseconds. */
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

/** Takes note that a record was accepted. */
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

/** Stalls count from now on, where nobody sent. */
export function restartStalls({ stalls }: Ledger): void {
  for (const stall of stalls.values()) stall.lastMs = performance.now();
}

/** The longest time in which no record of some tenant was accepted while it sent, in milliseconds. */
export function longestStallMs({ stalls }: Ledger): number {
  return Math.max(0, ...[...stalls.values()].map(({ longestMs }) => longestMs));
}

/** What failed since there were so many failures, in words; undefined where nothing did. */
export function failuresSince({ failures }: Ledger, before: number): string | undefined {
  const counts = new Map<string, number>();
  for (const failure of failures.slice(before)) counts.set(failure, (counts.get(failure) ?? 0) + 1);
  if (counts.size === 0) return undefined;
  return `${failures.length - before} requests failed: ${[...counts].map(([what, count]) => `${what} (${count})`).join(', ')}`;
}
