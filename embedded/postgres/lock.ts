import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '../../shared/errors.ts';
import { type InstanceLock, tryInstanceLock } from './instance-lock.ts';
import { isAlive } from './process-table.ts';

/** A process that is just ending may still hold the lock. */
const LIVE_HOLDER_PATIENCE_MS = 1000;
/** A process that was killed is gone before the server has noticed the end of its connection. */
const DEAD_HOLDER_PATIENCE_MS = 10_000;
const RETRY_MS = 50;

/**
 * Makes this process the one instance of the database. Throws AppError `ALREADY_RUNNING` when another one is, and the
 * connection's error when the server does not answer.
 */
export async function takeInstanceLock(connectionString: string): Promise<InstanceLock> {
  const startedAtMs = Date.now();
  for (;;) {
    const attempt = await tryInstanceLock(connectionString, process.pid);
    if (attempt.lock) return attempt.lock;
    const { heldByPid } = attempt;
    const holderLives = heldByPid !== undefined && (await isAlive(heldByPid));
    if (Date.now() - startedAtMs > (holderLives ? LIVE_HOLDER_PATIENCE_MS : DEAD_HOLDER_PATIENCE_MS)) {
      throw new AppError(
        'ALREADY_RUNNING',
        `Sluice is already running on this data directory (process ${heldByPid ?? 'unknown'}); stop it or set SLUICE_DATA_DIR`,
      );
    }
    await delay(RETRY_MS);
  }
}
