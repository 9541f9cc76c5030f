import { AppError } from '../errors.ts';
import type { Queryable } from './pool.ts';

/** The oldest major version that is supported. */
const POSTGRES_MIN = 15;
const VERSIONS_PER_MAJOR = 10_000;

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

export const majorOf = (version: number): number => Math.floor(version / VERSIONS_PER_MAJOR);

/** Throws AppError `DATABASE_TOO_OLD`, which is not retryable. */
export function requireVersion(version: number): void {
  const major = majorOf(version);
  if (major >= POSTGRES_MIN) return;
  throw new AppError(
    'DATABASE_TOO_OLD',
    `the server of DATABASE_URL is Postgres ${major}, which is too old: use Postgres ${POSTGRES_MIN} or later`,
  );
}
