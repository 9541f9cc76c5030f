import { openClient } from '../../shared/postgres/client.ts';

/** The lock that one running instance holds on its database for as long as its connection lives. */
export interface InstanceLock {
  /** Resolves when the lock's connection ends, whoever ended it. */
  readonly lost: Promise<void>;
  release(): Promise<void>;
}

export type InstanceLockAttempt =
  | { readonly lock: InstanceLock }
  /** The process id of the holder, undefined where it let go meanwhile. */
  | { readonly lock: undefined; readonly heldByPid: number | undefined };

// The two halves of the advisory lock's key; any constants that nothing else in the database uses.
const LOCK_CLASS = 0x51_1c_e0;
const LOCK_OBJECT = 1;
const NAME_PREFIX = 'sluice-instance ';

/**
 * Tries once to become the instance of this database. The lock belongs to a session of its own, so it frees itself when
 * the process dies. Rejects with the connection's error.
 */
export async function tryInstanceLock(
  connectionString: string,
  processId: number,
): Promise<InstanceLockAttempt> {
  const client = await openClient({ connectionString, applicationName: `${NAME_PREFIX}${processId}` });
  const lost = new Promise<void>((resolve) => client.once('end', () => resolve()));
  try {
    const attempt = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1, $2) AS taken', [
      LOCK_CLASS,
      LOCK_OBJECT,
    ]);
    if (attempt.rows[0]?.taken) return { lock: { lost, release: () => client.end() } };
    const holder = await client.query<{ application_name: string }>(
      `SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
       WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND granted`,
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
