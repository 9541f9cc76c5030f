import { type Backoff, retryUntilSuccess } from '../../shared/async.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import type { InstanceLock } from './instance-lock.ts';
import type { Postmaster } from './postmaster.ts';

/** The server and the lock of the process that is the instance. */
export interface OwnedServer {
  readonly postmaster: Postmaster;
  readonly lock: InstanceLock;
}

/** Options of {@link ServerSupervisor}. */
export interface SupervisorOptions extends OwnedServer {
  /** Resolves with the running server, which it starts when it is down. */
  ensure(signal: AbortSignal): Promise<Postmaster>;
  /** Throws AppError `ALREADY_RUNNING` when another process is the instance. */
  takeLock(): Promise<InstanceLock>;
  /** Called once, when another process is the instance. */
  onLost(error: AppError): void;
  readonly logger: Logger;
}

const BACKOFF: Backoff = { minMs: 100, maxMs: 5000 };

/**
 * Keeps the server running. The lock's connection ends when the server dies; the server is then
 * started again and the lock taken again, with a backoff and without a limit.
 */
export class ServerSupervisor {
  private readonly options: SupervisorOptions;
  private readonly ending = new AbortController();
  private readonly watching: Promise<void>;
  private current: OwnedServer | undefined;

  constructor(options: SupervisorOptions) {
    this.options = options;
    this.current = { postmaster: options.postmaster, lock: options.lock };
    this.watching = this.watch();
  }

  /**
   * Returns what is owned now; undefined while the server is down, and after another process took
   * over.
   */
  owned(): OwnedServer | undefined {
    return this.current;
  }

  /** Stops supervising; resolves with what `owned` returns then. */
  async end(): Promise<OwnedServer | undefined> {
    this.ending.abort();
    await this.watching;
    return this.current;
  }

  private async watch(): Promise<void> {
    const { signal } = this.ending;
    const ended = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    while (this.current !== undefined) {
      await Promise.race([this.current.lock.lost, ended]);
      if (signal.aborted) return;
      this.current = undefined;
      this.options.logger.warn('embedded Postgres connection lost');
      this.current = await this.recover();
    }
  }

  private async recover(): Promise<OwnedServer | undefined> {
    const { logger, onLost } = this.options;
    try {
      return await retryUntilSuccess(() => this.restart(), {
        backoff: BACKOFF,
        signal: this.ending.signal,
        onFailure(error) {
          if (errorCode(error) === 'ALREADY_RUNNING') throw error;
          logger.error({ reason: errorMessage(error) }, 'embedded Postgres start failed, retrying');
        },
      });
    } catch (error) {
      onLost(error as AppError);
      return undefined;
    }
  }

  private async restart(): Promise<OwnedServer> {
    const { ensure, takeLock, logger } = this.options;
    const postmaster = await ensure(this.ending.signal);
    if (postmaster.port !== this.options.postmaster.port) {
      throw new AppError('ALREADY_RUNNING', 'another process runs Postgres on this data directory now');
    }
    const lock = await takeLock();
    logger.info({ pid: postmaster.pid }, 'embedded Postgres restarted');
    return { postmaster, lock };
  }
}
