import { errorMessage } from '../../shared/errors.ts';
import type { Health } from '../../shared/http/health.ts';
import type { Logger } from '../../shared/logging.ts';
import { createLogGate, type LogGate } from './log-gate.ts';
import { createLogProbe, type LogLook } from './log-probe.ts';

export interface LogHealthOptions {
  /** Asks the log for a sign of life; rejects when there is none. */
  readonly probe: () => Promise<void>;
  readonly health: Health;
  readonly logger: Logger;
  /** Milliseconds between two probes. Default 1000. */
  readonly probeMs?: number;
  /** Milliseconds after which a probe without an answer counts as failed. Default 3000. */
  readonly probeDeadlineMs?: number;
  /** Milliseconds without a trial until a log that answers, but took nothing, is given another chance. Default 2000. */
  readonly chanceMs?: number;
  /** How long that may grow. Default 30,000. */
  readonly chanceMsMax?: number;
  /** Milliseconds between two trials. Default 1000. */
  readonly trialMs?: number;
}

export interface LogHealth extends Pick<LogGate, 'admits'> {
  /** Told of each publish that was admitted. */
  onOutcomes(...publish: Parameters<LogGate['onOutcomes']>): void;
  close(): void;
}

const WELL: LogLook = { answers: true, problem: undefined, lasts: false };

/**
 * Whether the log takes records. A publish that succeeds says yes, whatever else was found. After one that failed the log
 * is asked, and as long as it does not answer, asked again; once it does, it is believed. A log that answers and takes
 * nothing all the same (a full disk) is ready again only by a publish, for which a few requests are let through. Where
 * none come, because the gateway is not ready, it says after a while that it is, and takes that back when the next
 * publish fails; the while grows each time.
 */
export function createLogHealth(options: LogHealthOptions): LogHealth {
  const { health, logger, probeMs = 1000, chanceMs = 2000, chanceMsMax = 30_000 } = options;
  const lookAtLog = createLogProbe(options.probe, options.probeDeadlineMs ?? 3000);
  const nowMs = () => performance.now();
  const gate = createLogGate({ nowMs, trialMs: options.trialMs ?? 1000 });
  /** What the last look found, unless records that were taken since say otherwise. */
  let found: LogLook = { answers: true, problem: 'was not reached yet', lasts: false };
  /** Whether the log is given a chance though it took nothing. */
  let onChance = false;
  let nextChanceMs = chanceMs;
  let chanceAtMs = 0;
  /** Whether something failed since the log last took a record. */
  let troubled = true;
  let told = found.problem;
  let looks = 0;
  let looking = false;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  function tell(): void {
    const problem = found.problem ?? (gate.isClosed() && !onChance ? 'does not take records' : undefined);
    health.setReady('event log', problem);
    if (problem === told) return;
    told = problem;
    if (problem === undefined) logger.info('the event log takes records');
    else {
      logger.warn(
        { problem: found.cause && errorMessage(found.cause) },
        `the event log ${inShort(problem)}: requests get 503-01`,
      );
    }
  }

  function onTaken(): void {
    if (!troubled) return;
    onChance = false;
    nextChanceMs = chanceMs;
    if (found.lasts) return;
    stopLooking();
    troubled = false;
    found = WELL;
    tell();
  }

  function onRefused(): void {
    troubled = true;
    onChance = false;
    chanceAtMs = nowMs() + nextChanceMs;
    if (!looking) lookAt(gate.isClosed() && found.problem === undefined ? chanceAtMs : 0);
    tell();
  }

  /** Looks at that time, instead of when it was to, but not too soon after the last time. */
  function lookAt(atMs: number): void {
    clearTimeout(timer);
    const inMs = Math.max(atMs, lookedAtMs + probeMs) - nowMs();
    timer = setTimeout(() => void look(), Math.max(0, inMs)).unref();
  }

  function stopLooking(): void {
    looks += 1;
    looking = false;
    clearTimeout(timer);
  }

  async function look(): Promise<void> {
    looks += 1;
    const number = looks;
    looking = true;
    const seen = await lookAtLog();
    // Closed, or the log took something meanwhile.
    if (number !== looks) return;
    looking = false;
    lookedAtMs = nowMs();
    const before = found;
    found = seen;
    gate.setSilent(!seen.answers);
    if (seen.problem !== undefined) lookAt(0);
    else if (before.problem !== undefined) gate.open();
    else if (gate.isClosed() && !onChance) giveChance();
    tell();
  }

  /** Not before its time, and not while requests try anyway. */
  function giveChance(): void {
    if (nowMs() < chanceAtMs || gate.isTrying()) lookAt(Math.max(chanceAtMs, nowMs() + chanceMs));
    else {
      onChance = true;
      nextChanceMs = Math.min(nextChanceMs * 2, chanceMsMax);
    }
  }

  health.setReady('event log', told);
  void look();
  return {
    admits: gate.admits,
    onOutcomes(...publish) {
      const result = gate.onOutcomes(...publish);
      if (result === 'taken') onTaken();
      else if (result === 'refused') onRefused();
    },
    close: stopLooking,
  };
}

/** Without the sentence that the line carries as its problem. */
const inShort = (reason: string): string => reason.split(':')[0]!;
