import type { Queryable } from '../../../postgres/pool.ts';

/** A session of this process whose last statement may still run. */
export interface LostSession {
  /** Process id of its backend. */
  readonly backendPid: number;
  readonly lostAt: Date;
}

/** Milliseconds that the server waits for the session's end. */
const PATIENCE_MS = 1000;

/**
 * Ends the session and waits for its end, so that none of its statements can still commit. Resolves
 * with false when the session has not ended in time. A session that began after the loss only has
 * the same process id, and is not ended.
 */
export async function terminateSession(db: Queryable, session: LostSession): Promise<boolean> {
  const result = await db.query<{ ended: boolean }>(
    `select pg_terminate_backend(pid, $3) as ended from pg_stat_activity
     where pid = $1 and backend_start <= $2 and usename = current_user`,
    [session.backendPid, session.lostAt, PATIENCE_MS],
  );
  return result.rows.every((row) => row.ended);
}
