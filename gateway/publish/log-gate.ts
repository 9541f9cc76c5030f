import type { OutgoingRecord, PublishOutcome } from '../../shared/log/log.ts';

export interface LogGateOptions {
  /** Milliseconds, of any clock that does not jump. */
  readonly nowMs: () => number;
  /** Milliseconds from a publish that failed to the next trial; while the log does not even answer, ten times that. */
  readonly trialMs: number;
}

/** Which publishes are worth a wait while the log takes nothing. */
export interface LogGate {
  /** False: refuse at once. Else `onOutcomes` must be told, with the same array, what became of it. */
  admits(topic: string, records: readonly OutgoingRecord[]): boolean;
  /** `taken` when the log took any of them, `refused` when it took none, undefined when it had no say. */
  onOutcomes(
    topic: string,
    records: readonly OutgoingRecord[],
    outcomes: readonly PublishOutcome[],
  ): 'taken' | 'refused' | undefined;
  /** Whether only trials are admitted. */
  isClosed(): boolean;
  /** Whether trials are under way. */
  isTrying(): boolean;
  /** Closes while the log does not answer. */
  setSilent(silent: boolean): void;
  /** Forgets all that failed. */
  open(): void;
}

/** Publishes that failed in a row, with none taken since they began, until the log is held to take nothing. */
const FAILURES_MAX = 3;
const SILENT_TRIALS_FACTOR = 10;

/**
 * Closed, it admits one trial at a time, and what goes to a partition that has not refused yet, once: where only some
 * partitions take nothing (one leader of three is gone), the first record of another one is taken, and opens it for all.
 */
export function createLogGate({ nowMs, trialMs }: LogGateOptions): LogGate {
  let failures = 0;
  let silent = false;
  let nextTrialMs = 0;
  /** Partitions that refused since the log last took something. */
  const refusing = new Set<string>();
  /** Partitions of the trials under way. */
  const trying = new Set<string>();
  /** Publishes that the log took of, so far. */
  let taken = 0;
  /** How many that were when the publish of these records began. */
  const takenBefore = new WeakMap<readonly OutgoingRecord[], number>();

  const isClosed = () => silent || failures >= FAILURES_MAX;

  function delayTrials(): void {
    nextTrialMs = nowMs() + (silent ? trialMs * SILENT_TRIALS_FACTOR : trialMs);
  }

  function open(): void {
    failures = 0;
    silent = false;
    refusing.clear();
  }

  return {
    isClosed,
    isTrying: () => trying.size > 0,
    open,
    admits(topic, records) {
      takenBefore.set(records, taken);
      if (!isClosed()) return true;
      const names = namesOf(topic, records);
      const untried = !silent && names.some((name) => !refusing.has(name) && !trying.has(name));
      if (!untried && (trying.size > 0 || nowMs() < nextTrialMs)) return false;
      for (const name of names) trying.add(name);
      return true;
    },
    onOutcomes(topic, records, outcomes) {
      if (trying.size > 0) for (const name of namesOf(topic, records)) trying.delete(name);
      if (outcomes.some(({ ok }) => ok)) {
        taken += 1;
        if (failures > 0 || silent) open();
        return 'taken';
      }
      const refused = records.filter((_, index) => isLogFailure(outcomes[index]!));
      if (refused.length === 0) return undefined;
      // Others were taken while it waited: it failed by its partition or by the length of its queue, and the log is well.
      // Many such at once, of a tenant that floods, must not close the gate for all.
      if ((takenBefore.get(records) ?? taken) < taken) return undefined;
      failures += 1;
      for (const name of namesOf(topic, refused)) refusing.add(name);
      delayTrials();
      return 'refused';
    },
    setSilent(next) {
      if (next === silent) return;
      silent = next;
      delayTrials();
    },
  };
}

function namesOf(topic: string, records: readonly OutgoingRecord[]): string[] {
  return [...new Set(records.map(({ partition }) => `${topic}/${partition}`))];
}

/** A full queue is ours, not the log's. */
function isLogFailure(outcome: PublishOutcome): boolean {
  return !outcome.ok && (outcome.reason === 'timeout' || outcome.reason === 'unavailable');
}
