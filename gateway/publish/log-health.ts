import { singleFlight, withDeadline } from '../../shared/async.ts';
import { errorCode, errorMessage } from '../../shared/errors.ts';
import type { Health } from '../../shared/http/health.ts';
import type { OutgoingRecord, PublishOutcome } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import { CircuitBreaker } from '../circuit-breaker.ts';
import { reportBreaker } from './metrics.ts';

export interface LogHealthOptions {
  /**
   * Checks the topics of the log. Rejects if the log does not answer, or if a topic differs from
   * its registration.
   */
  readonly probe: () => Promise<void>;
  readonly health: Health;
  readonly logger: Logger;
}

/** A publish that the gate let through. */
export interface PublishAttempt {
  end(outcomes: readonly PublishOutcome[]): void;
}

/** Decides whether a publish is attempted. */
export interface LogGate {
  /** Begins a publish. Returns undefined if the records must be refused without a publish. */
  begin(topic: string, records: readonly OutgoingRecord[]): PublishAttempt | undefined;
}

/** The problem that a check of the log found. */
interface LogProblem {
  readonly reason: string;
  /** False if the log did not answer. Then a successful publish disproves the problem. */
  readonly answered: boolean;
  /**
   * Whether the problem concerns one topic. Then a successful publish to another topic does not
   * disprove the problem.
   */
  readonly ofTopic: boolean;
  readonly cause?: unknown;
}

const FAILURES_MAX = 3;
const OPEN_MS = 2000;
const OPEN_MS_MAX = 8000;
const CHECK_INTERVAL_MS = 1000;
const CHECK_DEADLINE_MS = 3000;
/** Only a probe ends this problem, because a publish concerns one topic. */
const NOT_CHECKED: LogProblem = { reason: 'is not checked yet', answered: true, ofTopic: true };
const TOPIC_CODES = ['TOPIC_MISSING', 'TOPIC_LAYOUT_DIFFERS'];

/**
 * Tracks whether the log accepts records, with a circuit breaker over the publishes, and a probe.
 * The probe runs at the start and after a failed publish, once per second until it succeeds. If the
 * log does not answer the probe, the breaker opens at the first failed publish, and closes once the
 * log answers. If the log answers but accepts nothing (a full disk), only publishes detect the
 * failure and the recovery.
 */
export class LogHealth implements LogGate {
  private readonly options: LogHealthOptions;
  private readonly breaker: CircuitBreaker;
  private readonly findProblem: () => Promise<LogProblem | undefined>;
  private problem: LogProblem | undefined = NOT_CHECKED;
  private acceptedAtMs = Number.NEGATIVE_INFINITY;
  private checkedAtMs = Number.NEGATIVE_INFINITY;
  private isChecking = false;
  private isClosed = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(options: LogHealthOptions) {
    const { health, logger, probe } = options;
    this.options = options;
    this.breaker = new CircuitBreaker({
      failuresMax: FAILURES_MAX,
      openMs: OPEN_MS,
      openMsMax: OPEN_MS_MAX,
      onOpened: () => logger.warn('event log unavailable, requests get 503-01'),
      onClosed: () => logger.info('event log available'),
    });
    reportBreaker(this.breaker);
    this.findProblem = createCheck(probe, CHECK_DEADLINE_MS);
    health.watchReady('event log', () => this.reason());
    void this.check();
  }

  /** Probes the log again. Until then, the log counts as not checked. */
  checkAgain(): void {
    // A probe in flight compares the topics when the log has answered, so it sees what has changed.
    if (this.isChecking) return;
    this.problem ??= NOT_CHECKED;
    this.checkedAtMs = Number.NEGATIVE_INFINITY;
    this.scheduleCheck();
  }

  begin(topic: string, records: readonly OutgoingRecord[]): PublishAttempt | undefined {
    const attempt = this.breaker.begin(() => partitionsOf(topic, records));
    return (
      attempt && {
        end: (outcomes) => {
          if (outcomes.some(({ ok }) => ok)) {
            attempt.succeeded();
            this.onAccepted();
          } else if (outcomes.some(isLogFailure)) {
            attempt.failed();
            this.scheduleCheck();
          }
        },
      }
    );
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private reason(): string | undefined {
    return this.problem?.reason ?? (this.breaker.state === 'open' ? 'accepts no records' : undefined);
  }

  private onAccepted(): void {
    this.acceptedAtMs = performance.now();
    if (this.problem?.ofTopic) return;
    clearTimeout(this.timer);
    this.setProblem(undefined);
  }

  private scheduleCheck(): void {
    if (this.isChecking || this.isClosed) return;
    clearTimeout(this.timer);
    const inMs = Math.max(0, this.checkedAtMs + CHECK_INTERVAL_MS - performance.now());
    this.timer = setTimeout(() => void this.check(), inMs).unref();
  }

  private async check(): Promise<void> {
    const startedAtMs = performance.now();
    this.isChecking = true;
    const found = await this.findProblem();
    this.isChecking = false;
    this.checkedAtMs = performance.now();
    if (this.isClosed) return;
    const disproved = found && !found.ofTopic && this.acceptedAtMs >= startedAtMs;
    this.setProblem(disproved ? undefined : found);
    if (this.problem) this.scheduleCheck();
  }

  private setProblem(problem: LogProblem | undefined): void {
    const { logger } = this.options;
    const before = this.problem;
    this.problem = problem;
    if (problem && !problem.answered) this.breaker.trip();
    else if (before && !before.answered) this.breaker.close();
    if (problem?.reason === before?.reason) return;
    if (!problem) logger.info('event log check passed');
    else logger.warn({ reason: errorMessage(problem.cause) }, 'event log check failed');
  }
}

function partitionsOf(topic: string, records: readonly OutgoingRecord[]): string[] {
  return [...new Set(records.map(({ partition }) => `${topic}/${partition}`))];
}

/**
 * Returns whether a publish failed because of the log. A full queue of the gateway is no failure of
 * the log.
 */
function isLogFailure(outcome: PublishOutcome): boolean {
  return !outcome.ok && (outcome.reason === 'timeout' || outcome.reason === 'unavailable');
}

/**
 * Returns a function that probes the log with a deadline. That function resolves with the problem,
 * if any, and never rejects.
 */
function createCheck(probe: () => Promise<void>, deadlineMs: number): () => Promise<LogProblem | undefined> {
  // A probe that missed its deadline is still in flight: the next check waits for the same probe.
  const probeOnce = singleFlight(probe);
  return async () => {
    try {
      await withDeadline(probeOnce(), deadlineMs);
      return undefined;
    } catch (cause) {
      const code = errorCode(cause) ?? '';
      const ofTopic = TOPIC_CODES.includes(code);
      // Only configuration errors are exposed by /health; everything else is logged.
      if (ofTopic || code === 'LOG_ACCESS_REFUSED') {
        return { reason: `cannot be used: ${errorMessage(cause)}`, answered: true, ofTopic, cause };
      }
      return { reason: 'does not answer', answered: false, ofTopic, cause };
    }
  };
}
