import { setTimeout as delay } from 'node:timers/promises';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import type { InstanceLock } from './instance-lock.ts';
import type { Postmaster } from './postmaster.ts';

/** The server and the lock of the process that is the instance. */
export interface OwnedServer {
  readonly postmaster: Postmaster;
  readonly lock: InstanceLock;
}

/** Options of {@link superviseServer}. */
export interface SupervisorOptions extends OwnedServer {
  /** Resolves with the running server, which it starts when it is down. */
  ensure(signal: AbortSignal): Promise<Postmaster>;
  /** Throws AppError `ALREADY_RUNNING` when another process is the instance. */
  takeLock(): Promise<InstanceLock>;
  /** Called once, when another process is the instance. */
  onLost(error: AppError): void;
  readonly logger: Logger;
}

const BACKOFF_MIN_MS = 100;
const BACKOFF_MAX_MS = 5000;

/**
 * Keeps the server running. The lock's connection ends when the server dies; the server is then started again and the lock
 * taken again, with a backoff and without a limit.
 */
export function superviseServer(options: SupervisorOptions): {
  /** Returns what is owned now; undefined while the server is down, and after another process took over. */
  owned(): OwnedServer | undefined;
  /** Stops supervising; resolves with what `owned` would return. */
  end(): Promise<OwnedServer | undefined>;
} {
  const ending = new AbortController();
  let owned: OwnedServer | undefined = { postmaster: options.postmaster, lock: options.lock };
  const watching = watch(options, ending.signal, (now) => {
    owned = now;
  });
  return {
    owned: () => owned,
    end() {
      ending.abort();
      return watching;
    },
  };
}

async function watch(
  options: SupervisorOptions,
  signal: AbortSignal,
  onChange: (owned: OwnedServer | undefined) => void,
): Promise<OwnedServer | undefined> {
  const ended = new Promise<void>((resolve) =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  let owned: OwnedServer | undefined = { postmaster: options.postmaster, lock: options.lock };
  while (owned !== undefined && !signal.aborted) {
    await Promise.race([owned.lock.lost, ended]);
    if (signal.aborted) break;
    onChange(undefined);
    options.logger.warn('embedded Postgres connection lost');
    owned = await recover(options, signal);
    onChange(owned);
  }
  return owned;
}

async function recover(options: SupervisorOptions, signal: AbortSignal): Promise<OwnedServer | undefined> {
  for (let backoffMs = BACKOFF_MIN_MS; !signal.aborted; backoffMs = Math.min(backoffMs * 2, BACKOFF_MAX_MS)) {
    try {
      const postmaster = await options.ensure(signal);
      if (postmaster.port !== options.postmaster.port) {
        throw new AppError('ALREADY_RUNNING', 'another process runs Postgres on this data directory now');
      }
      const lock = await options.takeLock();
      options.logger.info({ pid: postmaster.pid }, 'embedded Postgres restarted');
      return { postmaster, lock };
    } catch (error) {
      if (signal.aborted) break;
      if (error instanceof AppError && error.code === 'ALREADY_RUNNING') {
        options.onLost(error);
        break;
      }
      options.logger.error({ reason: errorMessage(error) }, 'embedded Postgres start failed, retrying');
      await delay(backoffMs, undefined, { signal }).catch(() => undefined);
    }
  }
  return undefined;
}
