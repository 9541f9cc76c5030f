import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientBase } from 'pg';
import { AppError, errorCode } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { packageRoot } from '../package-root.ts';
import { openClient } from './client.ts';
import type { Queryable } from './pool.ts';
import { readServerFacts, requireServer } from './server-facts.ts';
import { SQLSTATE } from './sqlstate.ts';

export interface MigrateOptions {
  /** Address and credentials of a database role that may create tables. */
  readonly connectionString: string;
  readonly logger: Logger;
  /** The folder of the SQL files. Default: shared/postgres/migrations of this package. */
  readonly directory?: string;
}

const MIGRATIONS_TABLE = 'schema_migrations';
/**
 * Settings of the migrations' session. Migrations must not depend on defaults or be cancelled by a
 * timeout. A database that is read-only by default stays read-only.
 */
const SESSION = `set default_transaction_isolation = 'read committed'; set statement_timeout = 0; set lock_timeout = 0;
  set idle_in_transaction_session_timeout = 0; set standard_conforming_strings = on; set array_nulls = on;
  set check_function_bodies = on; set synchronous_commit = on`;

/**
 * Applies the migrations that the database lacks, each in a transaction of its own, and returns
 * their names. Concurrent runs are safe: one applies the migrations, while other runs wait and then
 * find nothing to apply. Rejects with AppError `DATABASE_TOO_OLD` or `DATABASE_UNSUITABLE`, or with
 * the database's error; migrations before the failed one stay applied.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const { logger } = options;
  // Uses its own connection, because the lock that serializes runs belongs to the session.
  const client = await openClient({
    connectionString: options.connectionString,
    applicationName: 'sluice-migrate',
  });
  try {
    await client.query(SESSION);
    requireServer(await readServerFacts(client));
    const known = await readSchema(client);
    // A schema of a newer release must not be extended, even if some of this release's migrations
    // are missing.
    if (known !== undefined) refuseTooNew(known, migrationNames(options.directory));
    // Imported here, because all processes import this file and only migrations need it.
    const { runner } = await import('node-pg-migrate');
    const applied = await runner({
      dbClient: client as unknown as ClientBase,
      dir: options.directory ?? migrationsDirectory(),
      direction: 'up',
      migrationsTable: MIGRATIONS_TABLE,
      singleTransaction: false,
      advisoryLockMode: 'wait',
      // checkSchema compares names as sets, so migrations of a newer release are no error.
      checkOrder: false,
      logger: {
        info: (text) => logger.debug(text),
        warn: (text) => logger.warn(text),
        error: (text) => logger.error(text),
      },
    });
    return applied.map((migration) => migration.name);
  } finally {
    await client.end();
  }
}

/**
 * Resolves if this release can use the database's schema, which may contain additions of a newer
 * release. Rejects with AppError `SCHEMA_OUTDATED` if migrations are missing, and `SCHEMA_TOO_NEW`
 * if a newer release has changed the schema incompatibly; neither is retryable.
 */
export async function checkSchema(db: Queryable, directory?: string): Promise<void> {
  const names = migrationNames(directory);
  const schema = await readSchema(db);
  if (schema !== undefined) refuseTooNew(schema, names);
  const applied = new Set(schema?.applied);
  const missing = names.filter((name) => !applied.has(name));
  if (missing.length > 0) {
    throw new AppError(
      'SCHEMA_OUTDATED',
      `the database lacks ${missing.length} of this release's migrations (${missing.join(', ')}): run \`npx sluice migrate\``,
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

function refuseTooNew(schema: Schema, names: readonly string[]): void {
  const version = schemaVersion(names);
  if (schema.minCompatibleVersion <= version) return;
  throw new AppError(
    'SCHEMA_TOO_NEW',
    `a newer release changed the database: it needs schema version ${schema.minCompatibleVersion} or later, ` +
      `this release has ${version}; run the newer release`,
  );
}

/** Reads the state of the database's schema; undefined if no migration has run yet. */
async function readSchema(db: Queryable): Promise<Schema | undefined> {
  try {
    const migrations = await db.query<{ name: string }>(`select name from ${MIGRATIONS_TABLE} order by id`);
    if (migrations.rows.length === 0) return undefined;
    const compatibility = await db.query<Pick<Schema, 'minCompatibleVersion'>>(
      'select min_compatible_version as "minCompatibleVersion" from schema_compatibility',
    );
    return {
      applied: migrations.rows.map((row) => row.name),
      minCompatibleVersion: compatibility.rows[0]?.minCompatibleVersion ?? 0,
    };
  } catch (error) {
    if (errorCode(error) === SQLSTATE.UNDEFINED_TABLE) return undefined;
    throw error;
  }
}

function migrationNames(directory: string = migrationsDirectory()): string[] {
  return readdirSync(directory)
    .filter((file) => /^\d{4}_.*\.sql$/.test(file))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort();
}

/** Returns the folder of the SQL files, which are not copied to the compiled code. */
function migrationsDirectory(): string {
  return join(packageRoot(), 'shared', 'postgres', 'migrations');
}
