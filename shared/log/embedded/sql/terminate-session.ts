import type { Queryable } from '../../../postgres/pool.ts';

/** A session of this process whose last statement may still run. */
export interface LostSession {
  /** Process id of its backend. */
  readonly backendPid: number;
  readonly lostAt: Date;
}

/** Milliseconds that the server waits for the end of the session. */
const PATIENCE_MS = 1000;

/**
 * Terminates the session and waits for its end, so that none of its statements can still commit.
 * Resolves with false if the session has not ended in time. Does not terminate a newer session, to
 * which the server has given the same process id.
 */
export async function terminateSession(db: Queryable, session: LostSession): Promise<boolean> {
  const result = await db.query<{ ended: boolean }>(
    `select pg_terminate_backend(pid, $3) as ended from pg_stat_activity
     where pid = $1 and backend_start <= $2 and usename = current_user`,
    [session.backendPid, session.lostAt, PATIENCE_MS],
  );
  return result.rows.every((row) => row.ended);
}
