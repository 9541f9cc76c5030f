import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sleep } from '../async.ts';
import { systemClock } from '../clock.ts';
import { AppError, errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { packageRoot } from '../package-root.ts';
import { tryAdvisoryLock } from './advisory-lock.ts';
import { createPool, inTransaction, type Pool, type Queryable } from './pool.ts';
import { DATABASE_UNSUITABLE, readServerFacts, requireServer, requireWritable } from './server-facts.ts';
import { splitStatements } from './split-statements.ts';
import { SQLSTATE, sqlStateOf } from './sqlstate.ts';
import { requireOwnTables } from './table-rights.ts';

export interface MigrateOptions {
  /** Address and credentials of a database role that may create tables. */
  readonly connectionString: string;
  readonly logger: Logger;
  /** The folder of the SQL files. Default: shared/postgres/migrations of this package. */
  readonly directory?: string;
  /** Milliseconds to wait for migrations of another process. Default 60,000. */
  readonly lockTimeoutMs?: number;
  /** Milliseconds to wait for a table that another session uses. Default 10,000. */
  readonly tableTimeoutMs?: number;
}

/**
 * Key of the advisory lock that serializes migrations. Releases that used node-pg-migrate held the
 * same one, for a session.
 */
const LOCK = 7_241_865_325_823_964n;
const LOCK_TIMEOUT_MS = 60_000;
const LOCK_POLL_MS = 200;
/** Short, because writers wait for the table behind the migration. */
const TABLE_TIMEOUT_MS = 10_000;
/**
 * Settings of a migration's transaction, in addition to those of every transaction. Migrations must
 * not depend on defaults or be cancelled by a timeout. Citus refuses to change several tables with
 * foreign keys to a reference table in parallel.
 */
const SETTINGS = `set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;
  set local standard_conforming_strings = on; set local check_function_bodies = on; set local citus.multi_shard_modify_mode = 'sequential'`;

/**
 * Applies the migrations that the database lacks to the current schema of the role, each in a
 * transaction of its own, and returns their names. Concurrent runs are safe: each migration is
 * applied once. Everything that a run needs belongs to its transactions, so that runs also work
 * through a pooler that gives every transaction another session.
 *
 * Rejects with AppError `DATABASE_TOO_OLD`, `DATABASE_UNSUITABLE`, `DATABASE_READ_ONLY` or
 * `MIGRATION_LOCKED` (both retryable), or `SCHEMA_TOO_NEW`, or with the database's error; migrations
 * before the failed one stay applied.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const { connectionString, logger, directory } = options;
  const { lockTimeoutMs = LOCK_TIMEOUT_MS, tableTimeoutMs = TABLE_TIMEOUT_MS } = options;
  const lock: LockOptions = { directory, lockTimeoutMs, tableTimeoutMs };
  // One connection holds the lock, and the other one builds indexes outside of its transaction.
  const pool = createPool({ connectionString, max: 2, applicationName: 'sluice-migrate', logger });
  try {
    const { facts, schema } = await readDatabase(pool);
    requireServer(facts);
    requireWritable(facts);
    const applied: string[] = [];
    for (const name of missingFrom(schema, migrationNames(directory))) {
      await buildIndexes(pool, name, { ...lock, logger });
      if (await applyMigration(pool, name, lock)) applied.push(name);
    }
    return applied;
  } finally {
    await pool.end();
  }
}

/**
 * Reads facts and schema without the database's limit on the time of statements. `inTransaction`
 * would set the client encoding, which is one of the facts.
 */
async function readDatabase(pool: Pool) {
  const client = await pool.connect();
  try {
    await client.query('begin; set local statement_timeout = 0');
    const read = { facts: await readServerFacts(client), schema: await readSchema(client) };
    await client.query('commit');
    client.release();
    return read;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

interface LockOptions {
  readonly directory: string | undefined;
  readonly lockTimeoutMs: number;
  readonly tableTimeoutMs: number;
}

/**
 * Runs the statements that `<name>.concurrently.sql` returns, if there is that file: they build
 * indexes while the tables are in use, and so cannot be part of a transaction. If a time limit of the
 * database ends one of them, the migration builds what is missing.
 */
async function buildIndexes(
  pool: Pool,
  name: string,
  { logger, ...options }: LockOptions & { readonly logger: Logger },
): Promise<void> {
  const file = join(options.directory ?? migrationsDirectory(), `${name}.concurrently.sql`);
  if (!existsSync(file)) return;
  const sql = await readFile(file, 'utf8');
  // Two runs that build the same indexes would end each other's statements by deadlocks.
  await underLock(pool, name, options, async () => {
    try {
      const { rows } = await pool.query<{ statement: string }>(sql);
      for (const [index, { statement }] of rows.entries()) {
        logger.info({ migration: name, step: index + 1, steps: rows.length }, statement);
        await pool.query(statement);
      }
    } catch (err) {
      logger.warn(
        { err, migration: name },
        'an index was not built in advance: the migration builds it, and writers wait',
      );
    }
  });
}

/** Applies one migration. Resolves with false if another run has applied it meanwhile. */
async function applyMigration(pool: Pool, name: string, options: LockOptions): Promise<boolean> {
  const sql = await readFile(join(options.directory ?? migrationsDirectory(), `${name}.sql`), 'utf8');
  return await underLock(pool, name, options, async (client, schema) => {
    if (!schema) await requireOwnTables(client);
    // The columns are those of node-pg-migrate.
    await client.query(
      `create table if not exists schema_migrations (
         id serial primary key, name varchar(255) not null, run_on timestamp not null)`,
    );
    // One at a time: Citus sends the text of a query to its workers, which take one statement.
    for (const statement of splitStatements(sql)) await client.query(statement);
    const runOn = new Date(systemClock.nowMs());
    await client.query('insert into schema_migrations (name, run_on) values ($1, $2)', [name, runOn]);
  });
}

/**
 * Runs `work` in a transaction that holds the lock of the migrations. Resolves with false, without
 * running it, if another run has applied the migration meanwhile.
 */
async function underLock(
  pool: Pool,
  name: string,
  { directory, lockTimeoutMs, tableTimeoutMs }: LockOptions,
  work: (client: Queryable, schema: Schema | undefined) => Promise<void>,
): Promise<boolean> {
  const attempt = async (client: Queryable) => {
    await client.query(SETTINGS);
    if (!(await tryLock(client))) return 'locked';
    const schema = await readSchema(client);
    if (!missingFrom(schema, migrationNames(directory)).includes(name)) return false;
    await work(client, schema);
    return true;
  };
  const endMs = performance.now() + lockTimeoutMs;
  for (;;) {
    // Each attempt is a transaction of its own: `create index concurrently` of the run that holds the
    // lock waits for the end of transactions that were reading.
    const result = await inTransaction(pool, attempt, { lockTimeoutMs: tableTimeoutMs }).catch(explainError);
    if (result !== 'locked') return result;
    if (performance.now() >= endMs) throw await lockedError(pool);
    await sleep(LOCK_POLL_MS);
  }
}

/**
 * Throws the error of a migration, with what to do if a table was in use. The text of an exception
 * that a migration raises says what to do.
 */
function explainError(error: unknown): never {
  const code = sqlStateOf(error);
  if (code === SQLSTATE.RAISE_EXCEPTION) {
    throw new AppError(DATABASE_UNSUITABLE, errorMessage(error), { cause: error });
  }
  if (code !== SQLSTATE.LOCK_NOT_AVAILABLE) throw error;
  throw new AppError(
    'MIGRATION_LOCKED',
    'another session, such as a dump, uses a table that the migration changes: wait for its end, and run `./sluice migrate` again',
    { retryable: true, cause: error },
  );
}

/** Takes the lock for the caller's transaction, which also works through a pooler. */
function tryLock(client: Queryable): Promise<boolean> {
  return tryAdvisoryLock(client, LOCK);
}

/** Returns the error that names the session with the lock. */
async function lockedError(db: Queryable): Promise<AppError> {
  const holder = await db.query<{ pid: number }>(
    `select pid from pg_locks where locktype = 'advisory' and granted and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32) + objid::bigint = $1`,
    [LOCK],
  );
  const pid = holder.rows[0]?.pid ?? 'PID';
  return new AppError(
    'MIGRATION_LOCKED',
    `another \`sluice migrate\` holds the lock of the migrations (process ${pid} of Postgres): wait until it has ended, or, if none runs, end the session with \`select pg_terminate_backend(${pid})\``,
    { retryable: true },
  );
}

/**
 * Resolves if this release can use the database's schema, which may contain additions of a newer
 * release. Rejects with AppError `SCHEMA_OUTDATED` if migrations are missing, and `SCHEMA_TOO_NEW`
 * if a newer release has changed the schema incompatibly; neither is retryable.
 */
export async function checkSchema(db: Queryable, directory?: string): Promise<void> {
  const missing = missingFrom(await readSchema(db), migrationNames(directory));
  if (missing.length > 0) {
    throw new AppError(
      'SCHEMA_OUTDATED',
      `the database lacks ${missing.length} of this release's migrations (${missing.join(', ')}): run \`./sluice migrate\``,
    );
  }
}

/**
 * Returns the number of this release's newest migration, which is compared with
 * `min_compatible_version`.
 */
export function schemaVersion(names: readonly string[] = migrationNames()): number {
  return Math.max(0, ...names.map((name) => Number.parseInt(name, 10)));
}

interface Schema {
  readonly applied: readonly string[];
  /** Releases with a lower schema version must not use the database. */
  readonly minCompatibleVersion: number;
}

/**
 * Returns which of the migrations the schema lacks. Throws AppError `SCHEMA_TOO_NEW`: a schema of a
 * newer release must not be extended, even if some of this release's migrations are missing.
 */
function missingFrom(schema: Schema | undefined, names: readonly string[]): string[] {
  const version = schemaVersion(names);
  if (schema && schema.minCompatibleVersion > version) {
    throw new AppError(
      'SCHEMA_TOO_NEW',
      `a newer release changed the database: it needs schema version ${schema.minCompatibleVersion} or later, ` +
        `this release has ${version}; run the newer release`,
    );
  }
  // Compared as sets, because a newer release may have applied more migrations.
  const applied = new Set(schema?.applied);
  return names.filter((name) => !applied.has(name));
}

/** Reads the state of the database's schema; undefined if no migration has run yet. */
async function readSchema(db: Queryable): Promise<Schema | undefined> {
  // A failed statement would end the transaction of a migration.
  const table = await db.query(
    `select 1 from pg_class where relname = 'schema_migrations' and pg_table_is_visible(oid)`,
  );
  if (table.rowCount === 0) return undefined;
  const migrations = await db.query<{ name: string }>('select name from schema_migrations order by id');
  if (migrations.rows.length === 0) return undefined;
  const compatibility = await db.query<Pick<Schema, 'minCompatibleVersion'>>(
    'select min_compatible_version as "minCompatibleVersion" from schema_compatibility',
  );
  return {
    applied: migrations.rows.map((row) => row.name),
    minCompatibleVersion: compatibility.rows[0]?.minCompatibleVersion ?? 0,
  };
}

function migrationNames(directory: string = migrationsDirectory()): string[] {
  return readdirSync(directory)
    .filter((file) => /^\d{4}_[^.]*\.sql$/.test(file))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort();
}

/** Returns the folder of the SQL files, which are not copied to the compiled code. */
function migrationsDirectory(): string {
  return join(packageRoot(), 'shared', 'postgres', 'migrations');
}
