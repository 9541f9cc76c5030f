import type { Logger } from './logging.ts';

export interface StopOptions {
  readonly logger: Logger;
  /** Milliseconds that `stop` may take. Default 30,000. */
  readonly graceMs?: number;
  /** Ends everything in order. */
  readonly stop: () => Promise<void>;
  /** For tests. Default: the process itself. */
  readonly process?: Pick<NodeJS.Process, 'on' | 'exit'>;
}

/**
 * Ends the process on SIGTERM or SIGINT: 0 when `stop` resolves within the grace period, 1 when it does not or fails;
 * a second signal ends it at once.
 */
export function stopOnSignals(options: StopOptions): void {
  const { logger, graceMs = 30_000, process: target = process } = options;
  let stopping = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping) {
      logger.warn({ signal }, 'stopped at once by a second signal');
      target.exit(1);
      return;
    }
    stopping = true;
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
