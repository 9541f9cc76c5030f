import { type Backoff, retryUntilSuccess } from '../../shared/async.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import type { InstanceLock } from './instance-lock.ts';
import type { Postmaster } from './postmaster.ts';

/** The server and the instance lock that this process owns. */
export interface OwnedServer {
  readonly postmaster: Postmaster;
  readonly lock: InstanceLock;
}

export interface SupervisorOptions extends OwnedServer {
  /** Starts the server if it is down. Resolves with the running server. */
  ensure(signal: AbortSignal): Promise<Postmaster>;
  /**
   * Takes the instance lock. Throws AppError `ALREADY_RUNNING` if another process holds the lock.
   */
  takeLock(): Promise<InstanceLock>;
  /** Called once, when another process has taken the instance lock. */
  onLost(error: AppError): void;
  readonly logger: Logger;
}

const BACKOFF: Backoff = { minMs: 100, maxMs: 5000 };

/**
 * Keeps the server running. If the server dies, the connection of the instance lock ends. The
 * supervisor then restarts the server and takes the lock again, with backoff and an unlimited
 * number of retries.
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
   * Returns the server and its lock; undefined while the server is down, or if another process owns
   * the data directory.
   */
  owned(): OwnedServer | undefined {
    return this.current;
  }

  /**
   * Stops the supervision. Resolves with the server and its lock, if this process still owns them.
   */
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
