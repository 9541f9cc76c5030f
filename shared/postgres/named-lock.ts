import { createHash } from 'node:crypto';
import { tryAdvisoryLock } from './advisory-lock.ts';
import { inTransaction, type Pool } from './pool.ts';

/** Milliseconds between two statements of the transaction that holds a lock. */
const RENEW_MS = 10_000;
/** Milliseconds after which the server frees the lock of a machine that crashed. */
const IDLE_TIMEOUT_MS = 60_000;

/**
 * Runs `work` while this process holds the lock of this name, on a connection of its own. Resolves
 * with the result; undefined, without a call of `work`, if another process holds the lock. The
 * server frees the lock of a killed process immediately.
 */
export async function whileLocked<T>(
  pool: Pool,
  name: string,
  work: () => Promise<T>,
): Promise<{ readonly result: T } | undefined> {
  const key = createHash('sha256').update(name).digest().readBigInt64BE();
  const done: { readonly result: T }[] = [];
  const hold = inTransaction(
    pool,
    async (db) => {
      if (!(await tryAdvisoryLock(db, key))) return;
      const renewal = setInterval(() => void db.query('select').catch(() => undefined), RENEW_MS);
      try {
        done.push({ result: await work() });
      } finally {
        clearInterval(renewal);
      }
    },
    { idleTimeoutMs: IDLE_TIMEOUT_MS },
  );
  // The transaction writes nothing: if only its end fails, the work is done.
  await hold.catch((error: unknown) => {
    if (done.length === 0) throw error;
  });
  return done[0];
}
