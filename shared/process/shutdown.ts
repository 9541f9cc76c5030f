import type { Logger } from '../logging.ts';
import type { Output } from './output.ts';

export interface StopOptions {
  readonly logger: Logger;
  /** The output of the logger. The exit waits for the output, {@link FLUSH_MS} at most. */
  readonly output: Pick<Output, 'end'>;
  /** Milliseconds that `stop` may take. Default 30,000. */
  readonly graceMs?: number;
  /**
   * Milliseconds within which a second signal counts as a repetition of the first. Default 1000.
   */
  readonly sameSignalMs?: number;
  /** Stops all parts of the process, in order. */
  readonly stop: () => Promise<void>;
  /** The process whose signals are handled. Default: this process; set in tests. */
  readonly process?: Pick<NodeJS.Process, 'on' | 'exit'>;
}

/** SIGINT is Ctrl-C, SIGQUIT is Ctrl-\. A terminal that is closed sends SIGHUP. */
export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP'] as const;
/** npm forwards a Ctrl-C that the terminal has already sent to this process. */
const SAME_SIGNAL_MS = 1000;
/** Milliseconds to write the last log lines if their reader is slow. */
const FLUSH_MS = 1000;

/**
 * Shuts the process down on a signal of {@link STOP_SIGNALS}. The process exits with 0 if `stop`
 * resolves within the grace period, else with 1. A second signal exits immediately; a SIGHUP does
 * not, because systems may send one together with a SIGTERM. An uncaught exception is logged before
 * it ends the process.
 */
export function stopOnSignals(options: StopOptions): void {
  const {
    logger,
    output,
    graceMs = 30_000,
    sameSignalMs = SAME_SIGNAL_MS,
    process: target = process,
  } = options;
  let stoppingSinceMs: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stoppingSinceMs !== undefined) {
      if (signal === 'SIGHUP' || performance.now() - stoppingSinceMs < sameSignalMs) return;
      logger.warn({ signal }, 'shutdown cut short by a second signal');
      target.exit(1);
      return;
    }
    const startedAtMs = performance.now();
    stoppingSinceMs = startedAtMs;
    logger.info({ signal, graceMs }, 'stopping');
    const overdue = setTimeout(() => {
      logger.error({ graceMs }, 'shutdown grace period exceeded');
      target.exit(1);
    }, graceMs);
    void exitCodeOf(options).then(async (code) => {
      clearTimeout(overdue);
      const leftMs = startedAtMs + graceMs - performance.now();
      await output.end(Math.max(0, Math.min(FLUSH_MS, leftMs)));
      target.exit(code);
    });
  };
  for (const signal of STOP_SIGNALS) target.on(signal, onSignal);
  target.on('uncaughtExceptionMonitor', (error) => {
    logger.fatal({ err: error }, 'uncaught exception');
  });
}

async function exitCodeOf({ stop, logger }: StopOptions): Promise<number> {
  try {
    await stop();
    logger.info('stopped');
    return 0;
  } catch (error) {
    logger.error({ err: error }, 'shutdown failed');
    return 1;
  }
}
