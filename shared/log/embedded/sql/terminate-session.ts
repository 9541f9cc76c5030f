import type { Queryable } from '../../../postgres/pool.ts';

/** A session of ours whose last statement may still run. */
export interface LostSession {
  /** Its server process. */
  readonly backendPid: number;
  readonly lostAt: Date;
}

/** Milliseconds that the server waits for the session's end. */
const PATIENCE_MS = 1000;

/**
 * Ends the session and waits for it, so that nothing it had begun can still commit. Resolves with false when it has
 * not ended in time. A session that began after the loss has only the same number, and is left alone.
 */
export async function terminateSession(db: Queryable, session: LostSession): Promise<boolean> {
  const result = await db.query<{ ended: boolean }>(
    `SELECT pg_terminate_backend(pid, $3) AS ended FROM pg_stat_activity
     WHERE pid = $1 AND backend_start <= $2 AND usename = current_user`,
    [session.backendPid, session.lostAt, PATIENCE_MS],
  );
  return result.rows.every((row) => row.ended);
}
