import type { Logger } from '../logging.ts';
import type { Output } from './output.ts';

export interface StopOptions {
  readonly logger: Logger;
  /** What the logger writes to. The end of the process waits for it, {@link FLUSH_MS} at most. */
  readonly output: Pick<Output, 'end'>;
  /** Milliseconds that `stop` may take. Default 30,000. */
  readonly graceMs?: number;
  /** Milliseconds within which a second signal counts as the first one. Default 1000. */
  readonly sameSignalMs?: number;
  /** Ends everything in order. */
  readonly stop: () => Promise<void>;
  /** For tests. Default: the process itself. */
  readonly process?: Pick<NodeJS.Process, 'on' | 'exit'>;
}

/** npm passes on the Ctrl-C that the terminal gave to us already: signals that come so soon after one are the same one. */
const SAME_SIGNAL_MS = 1000;
/** For the last lines, when their reader is slow. One that has stopped reading delays the end by no more. */
const FLUSH_MS = 1000;

/**
 * Ends the process on SIGTERM, SIGINT or SIGHUP (its terminal was closed): 0 when `stop` resolves within the grace period, 1
 * when it does not or fails. A second SIGTERM or SIGINT ends it immediately; a SIGHUP does not, since the system may send one
 * together with a SIGTERM. An uncaught exception is logged before it ends the process.
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
      logger.warn({ signal }, 'stopped at once by a second signal');
      target.exit(1);
      return;
    }
    const startedAtMs = performance.now();
    stoppingSinceMs = startedAtMs;
    logger.info({ signal, graceMs }, 'stopping');
    const overdue = setTimeout(() => {
      logger.error({ graceMs }, 'not stopped within the grace period: what is left is cut');
      target.exit(1);
    }, graceMs);
    void exitCodeOf(options).then(async (code) => {
      clearTimeout(overdue);
      const leftMs = startedAtMs + graceMs - performance.now();
      await output.end(Math.max(0, Math.min(FLUSH_MS, leftMs)));
      target.exit(code);
    });
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) target.on(signal, onSignal);
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
    logger.error({ err: error }, 'stopping failed');
    return 1;
  }
}
