import type { Logger } from './logging.ts';

export interface StopOptions {
  readonly logger: Logger;
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

/**
 * Ends the process on SIGTERM or SIGINT: 0 when `stop` resolves within the grace period, 1 when it does not or fails;
 * a second signal ends it at once.
 */
export function stopOnSignals(options: StopOptions): void {
  const { logger, graceMs = 30_000, sameSignalMs = SAME_SIGNAL_MS, process: target = process } = options;
  let stoppingSinceMs: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stoppingSinceMs !== undefined) {
      if (performance.now() - stoppingSinceMs < sameSignalMs) return;
      logger.warn({ signal }, 'stopped at once by a second signal');
      target.exit(1);
      return;
    }
    stoppingSinceMs = performance.now();
    logger.info({ signal, graceMs }, 'stopping');
    const overdue = setTimeout(() => {
      logger.error({ graceMs }, 'not stopped within the grace period: what is left is cut');
      target.exit(1);
    }, graceMs);
    void exitCodeOf(options).then((code) => {
      clearTimeout(overdue);
      target.exit(code);
    });
  };
  target.on('SIGTERM', onSignal);
  target.on('SIGINT', onSignal);
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
