import { errorCode, errorMessage } from '../shared/errors.ts';
import type { Health } from '../shared/health.ts';
import type { PublishOutcome } from '../shared/log/log.ts';
import type { Logger } from '../shared/logging.ts';

export interface LogHealthOptions {
  /** Asks the log for a sign of life; rejects when there is none. */
  readonly probe: () => Promise<void>;
  readonly health: Health;
  readonly logger: Logger;
  /** Milliseconds until the first and the longest repetition of a probe. Defaults 2000 and 30,000. */
  readonly probeMs?: number;
  readonly probeMsMax?: number;
  /** Milliseconds after which a probe without an answer counts as failed. Default 3000. */
  readonly probeDeadlineMs?: number;
}

export interface LogHealth {
  /** Told of each publish that the log had a say in. */
  onOutcomes(outcomes: readonly PublishOutcome[]): void;
  close(): void;
}

/** Failed publishes in a row that say more than a probe that succeeds. */
const FAILURES_MAX = 3;

/**
 * Whether the log takes records. A publish that succeeds says yes. After a failure the log is probed until it answers,
 * so that a gateway which gets no traffic any more, because it is not ready, becomes ready again. A log that answers
 * but still refuses records (a full disk) is believed for ever shorter: the interval grows until a publish succeeds.
 */
export function createLogHealth(options: LogHealthOptions): LogHealth {
  const { health, logger, probeMs = 2000, probeMsMax = 30_000, probeDeadlineMs = 3000 } = options;
  const ask = askWithin(options.probe, probeDeadlineMs);
  let failures = 0;
  let intervalMs = probeMs;
  let problem: string | undefined;
  let closed = false;
  let probing = false;
  let timer: NodeJS.Timeout | undefined;

  function setProblem(next: string | undefined, error?: unknown): void {
    if (next !== problem) {
      if (next === undefined) logger.info('the event log takes records');
      else {
        logger.warn(
          { problem: error && errorMessage(error) },
          `the event log ${inShort(next)}: requests get 503-01`,
        );
      }
    }
    problem = next;
    health.setReady('event log', next);
  }

  function onOutcomes(outcomes: readonly PublishOutcome[]): void {
    if (outcomes.some((outcome) => outcome.ok)) {
      failures = 0;
      intervalMs = probeMs;
      if (problem !== undefined) setProblem(undefined);
      return;
    }
    if (!outcomes.some(isLogFailure)) return;
    failures++;
    if (failures >= FAILURES_MAX) setProblem('does not take records');
    if (!probing) scheduleProbe();
  }

  function scheduleProbe(): void {
    if (closed) return;
    probing = true;
    timer = setTimeout(probe, intervalMs);
    timer.unref();
  }

  async function probe(): Promise<void> {
    try {
      await ask();
      if (closed) return;
      probing = false;
      failures = 0;
      if (problem !== undefined) setProblem(undefined);
    } catch (error) {
      if (closed) return;
      setProblem(reasonOf(error), error);
      scheduleProbe();
    }
    intervalMs = Math.min(intervalMs * 2, probeMsMax);
  }

  health.setReady('event log', 'was not reached yet');
  problem = 'was not reached yet';
  probing = true;
  void probe();
  return {
    onOutcomes,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

/** Without the sentence that the line carries as its problem. */
const inShort = (reason: string): string => reason.split(':')[0]!;

const TOLD_CODES = new Set(['LOG_ACCESS_REFUSED', 'TOPIC_MISSING', 'TOPIC_LAYOUT_DIFFERS']);

/** What the settings can mend is told to whoever asks for readiness, the rest only to the log. */
function reasonOf(error: unknown): string {
  return TOLD_CODES.has(errorCode(error) ?? '')
    ? `cannot be used: ${errorMessage(error)}`
    : 'does not answer';
}

/** A full queue is ours, not the log's. */
function isLogFailure(outcome: PublishOutcome): boolean {
  return !outcome.ok && (outcome.reason === 'timeout' || outcome.reason === 'unavailable');
}

/** Gives up on an answer after `ms`, but asks anew only when the last question has ended: questions must not pile up. */
function askWithin(probe: () => Promise<void>, ms: number): () => Promise<void> {
  let asked: Promise<void> | undefined;
  return async () => {
    asked ??= probe().finally(() => {
      asked = undefined;
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(reject, ms, new Error(`no answer within ${ms} ms`));
    });
    try {
      await Promise.race([asked, late]);
    } finally {
      clearTimeout(timer);
    }
  };
}
