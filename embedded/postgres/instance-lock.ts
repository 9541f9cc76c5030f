import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '../../shared/errors.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { isAlive } from './process-table.ts';

/**
 * The lock of the running instance on its database. The lock is released when its connection ends.
 */
export interface InstanceLock {
  /** Resolves when the lock's connection ends, on either side. */
  readonly lost: Promise<void>;
  release(): Promise<void>;
}

/** Milliseconds to wait for a lock whose holder lives, since the holder may be about to exit. */
const LIVE_HOLDER_PATIENCE_MS = 1000;
/**
 * Milliseconds to wait for a lock whose holder is dead: the server may not have noticed the end of
 * the holder's connection.
 */
const DEAD_HOLDER_PATIENCE_MS = 10_000;
const RETRY_MS = 50;

/**
 * Takes the lock that makes this process the only instance of the database. Throws AppError
 * `ALREADY_RUNNING` if another process holds the lock, or the connection's error if the server does
 * not answer.
 */
export async function takeInstanceLock(connectionString: string): Promise<InstanceLock> {
  const startedAtMs = performance.now();
  for (;;) {
    const attempt = await tryInstanceLock(connectionString);
    if (attempt.lock) return attempt.lock;
    const { heldByPid } = attempt;
    const holderLives = heldByPid !== undefined && (await isAlive(heldByPid));
    const patienceMs = holderLives ? LIVE_HOLDER_PATIENCE_MS : DEAD_HOLDER_PATIENCE_MS;
    if (performance.now() - startedAtMs > patienceMs) {
      throw new AppError(
        'ALREADY_RUNNING',
        `Sluice is already running on this data directory (process ${heldByPid ?? 'unknown'}); stop it or set SLUICE_DATA_DIR`,
      );
    }
    await delay(RETRY_MS);
  }
}

type InstanceLockAttempt =
  | { readonly lock: InstanceLock }
  /** The process id of the holder; undefined if the lock was released in the meantime. */
  | { readonly lock: undefined; readonly heldByPid: number | undefined };

// The two halves of the advisory lock's key: constants that nothing else in the database uses.
const LOCK_CLASS = 0x51_1c_e0;
const LOCK_OBJECT = 1;
const NAME_PREFIX = 'sluice-instance ';

/**
 * Tries once to take the lock. The lock belongs to a database session of its own, so the server
 * releases the lock when the process dies. Rejects with the connection's error.
 */
async function tryInstanceLock(connectionString: string): Promise<InstanceLockAttempt> {
  const client = await openClient({ connectionString, applicationName: `${NAME_PREFIX}${process.pid}` });
  const lost = new Promise<void>((resolve) => client.once('end', () => resolve()));
  try {
    const attempt = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1, $2) as taken', [
      LOCK_CLASS,
      LOCK_OBJECT,
    ]);
    if (attempt.rows[0]?.taken) return { lock: { lost, release: () => client.end() } };
    const holder = await client.query<{ application_name: string }>(
      `select application_name from pg_locks join pg_stat_activity using (pid)
       where locktype = 'advisory' and classid = $1 and objid = $2 and granted`,
      [LOCK_CLASS, LOCK_OBJECT],
    );
    await client.end();
    return { lock: undefined, heldByPid: processIdIn(holder.rows[0]?.application_name) };
  } catch (error) {
    await client.end();
    throw error;
  }
}

function processIdIn(applicationName: string | undefined): number | undefined {
  if (!applicationName?.startsWith(NAME_PREFIX)) return undefined;
  const pid = Number(applicationName.slice(NAME_PREFIX.length));
  return Number.isInteger(pid) ? pid : undefined;
}
