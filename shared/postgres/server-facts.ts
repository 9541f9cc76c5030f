import { AppError } from '../errors.ts';
import type { Pool, Queryable } from './pool.ts';
import { queryWithDeadline } from './query-with-deadline.ts';
import { DATABASE_READ_ONLY, READ_ONLY } from './refusals.ts';
import { epochMs } from './times.ts';

/** The oldest major version that is supported. */
const POSTGRES_MIN = 15;
const VERSIONS_PER_MAJOR = 10_000;

/** The required encoding of the database and of sessions: UTF-8 can represent every text. */
const ENCODING = 'UTF8';

/** Properties of the server, the database and the session that are checked at the start. */
export interface ServerFacts {
  /** The version in the format of server_version_num, e.g. 150004. */
  readonly version: number;
  /** The server's clock. */
  readonly nowMs: number;
  /** The encoding of the database, e.g. `UTF8` or `LATIN1`. */
  readonly encoding: string;
  /** The encoding of the session. */
  readonly clientEncoding: string;
  /** The role of the session: `replica` turns foreign keys off. */
  readonly replicationRole: string;
  /** Whether the server, or the session, only reads. */
  readonly readOnly: boolean;
}

/**
 * Finds out whether the database is a Citus cluster. The pool then sends statements that Citus takes
 * where the fastest ones of Postgres are refused, or block other tenants.
 */
export async function findCitus(pool: Pool, db: Queryable = pool): Promise<void> {
  const { rows } = await db.query<{ found: boolean }>(
    `select exists (select 1 from pg_extension where extname = 'citus') as found`,
  );
  pool.isCitus = rows[0]!.found;
}

const IS_READ_ONLY = `current_setting('transaction_read_only') = 'on'`;

/** Reads the version, the clock, and settings that statements cannot override. */
export async function readServerFacts(db: Queryable): Promise<ServerFacts> {
  const { rows } = await db.query<ServerFacts>(
    `select current_setting('server_version_num')::integer as version, ${epochMs('clock_timestamp()')} as "nowMs",
            current_setting('server_encoding') as encoding, current_setting('client_encoding') as "clientEncoding",
            current_setting('session_replication_role') as "replicationRole", ${IS_READ_ONLY} as "readOnly"`,
  );
  return rows[0]!;
}

export const majorOf = (version: number): number => Math.floor(version / VERSIONS_PER_MAJOR);

/**
 * AppError code (not retryable) of a database whose settings would change what is stored or read.
 */
export const DATABASE_UNSUITABLE = 'DATABASE_UNSUITABLE';

/**
 * Throws an AppError if the server is too old (`DATABASE_TOO_OLD`). Throws `DATABASE_UNSUITABLE` if
 * the database, its role or a pooler has a wrong setting that statements cannot override. Neither
 * is retryable.
 */
export function requireServer(facts: ServerFacts): void {
  requireVersion(facts.version);
  const problem = unsuitable(facts);
  if (problem !== undefined) throw new AppError(DATABASE_UNSUITABLE, problem);
}

/** Throws AppError `DATABASE_READ_ONLY` (retryable) if the database cannot be written. */
export function requireWritable({ readOnly }: Pick<ServerFacts, 'readOnly'>): void {
  if (!readOnly) return;
  throw new AppError(DATABASE_READ_ONLY, READ_ONLY, { retryable: true });
}

/**
 * Resolves if the database can be written. Otherwise rejects as {@link requireWritable}, and closes
 * the pool's connections, because their server may not be the primary any more. Rejects after
 * `deadlineMs`.
 */
export async function probeWritable(pool: Pool, deadlineMs: number): Promise<void> {
  const statement = `select ${IS_READ_ONLY} as "readOnly"`;
  const rows = await queryWithDeadline<Pick<ServerFacts, 'readOnly'>>(pool, deadlineMs, statement, []);
  try {
    requireWritable(rows[0]!);
  } catch (error) {
    pool.closeConnections(error as AppError);
    throw error;
  }
}

function unsuitable({ encoding, clientEncoding, replicationRole }: ServerFacts): string | undefined {
  if (encoding !== ENCODING) {
    return `the database of DATABASE_URL has the encoding ${encoding}, which cannot store every text: create one with \`createdb --template=template0 --encoding=${ENCODING} NAME\``;
  }
  if (clientEncoding !== ENCODING) {
    return `sessions of DATABASE_URL get client_encoding ${clientEncoding}: let the connection pooler keep client_encoding at ${ENCODING}`;
  }
  if (replicationRole === 'replica') {
    return 'session_replication_role is replica, which turns foreign keys off: reset it for the role and the database of DATABASE_URL';
  }
  return undefined;
}

function requireVersion(version: number): void {
  const major = majorOf(version);
  if (major >= POSTGRES_MIN) return;
  throw new AppError(
    'DATABASE_TOO_OLD',
    `the server of DATABASE_URL is Postgres ${major}, which is too old: use Postgres ${POSTGRES_MIN} or later`,
  );
}
