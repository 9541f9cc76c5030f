import type { Queryable } from './pool.ts';

/** What a check of the set-up asks the server. */
export interface ServerFacts {
  /** As in server_version_num, e.g. 150004. */
  readonly version: number;
  /** The server's clock. */
  readonly nowMs: number;
}

/** Asks for the version and the clock. The one place where the database's own time is read: to compare it with ours. */
export async function readServerFacts(db: Queryable): Promise<ServerFacts> {
  const { rows } = await db.query<{ version: number; now: Date }>(
    `select current_setting('server_version_num')::integer as version, clock_timestamp() as now`,
  );
  return { version: rows[0]!.version, nowMs: rows[0]!.now.getTime() };
}
