import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, inject } from 'vitest';
import { startEmbeddedPostgres } from '../../embedded/postgres/postgres.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { migrate } from '../../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Address of a database on the test server, from which others can be created. */
    postgresUrl: string;
  }
}

/** The Postgres of one test run. */
export interface TestPostgres {
  readonly url: string;
  /** A description of the server, for people. */
  readonly how: string;
  stop(): Promise<void>;
}

/** A database of one test file, with all migrations applied. */
export interface TestDatabase {
  readonly url: string;
  readonly pool: Pool;
  /**
   * Copies the database in its current state, as pg_dump and pg_restore would, which some machines
   * lack. Ends all sessions.
   */
  backUp(): Promise<DatabaseBackup>;
  /** Drops the database. This happens automatically after the test file. */
  drop(): Promise<void>;
}

export interface DatabaseBackup {
  /**
   * Replaces the database with the copy, under the same name. Can be called once. Ends all
   * sessions.
   */
  restore(): Promise<void>;
}

/** Prefix of every database of a run, followed by the run's process id. */
const PREFIX = 'sluice_test';

/**
 * Starts the run's only Postgres, or uses the server of TEST_DATABASE_URL, whose role must be
 * allowed to create databases. Creates the template that every test database is copied from.
 */
export async function startTestPostgres(): Promise<TestPostgres> {
  const given = process.env.TEST_DATABASE_URL;
  const server = given
    ? { url: given, how: 'the server of TEST_DATABASE_URL', stop: async () => {} }
    : await startOwn();
  const run = `${PREFIX}_${process.pid}`;
  const template = `${run}_template`;
  try {
    await admin(server.url, `DROP DATABASE IF EXISTS ${template}`);
    await admin(server.url, `CREATE DATABASE ${template}`);
    await migrate({
      connectionString: withDatabase(server.url, template),
      logger: pino({ level: 'silent' }),
    });
  } catch (error) {
    await server.stop();
    throw error;
  }
  return {
    url: withTemplate(server.url, template),
    how: server.how,
    async stop() {
      // Drops the template and all copies: a killed test file has dropped nothing.
      if (given) await dropAll(given, run);
      await server.stop();
    },
  };
}

/**
 * Creates a database for the calling test file, and drops it after the file; called from a hook,
 * after the run.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const database = await copyTemplate();
  afterAll(() => database.drop());
  return database;
}

/** Creates a database that the caller drops. */
export async function copyTemplate(): Promise<TestDatabase> {
  const { server, template } = splitTemplate(inject('postgresUrl'));
  const name = template.replace(/template$/, randomBytes(6).toString('hex'));
  await admin(server, `CREATE DATABASE ${name} TEMPLATE ${template}`);
  const url = withDatabase(server, name);
  const pool = createPool({
    connectionString: url,
    max: 10,
    applicationName: 'sluice-test',
    logger: pino({ level: 'silent' }),
    pipeline: true,
  });
  let dropping: Promise<void> | undefined;
  return {
    url,
    pool,
    async backUp() {
      const copy = `${name}_copy`;
      // A database can only be copied while nobody is connected to it.
      await admin(server, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      await admin(server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
      await admin(server, `CREATE DATABASE ${copy} TEMPLATE ${name}`);
      await admin(server, `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
      return {
        async restore() {
          await admin(server, `DROP DATABASE ${name} WITH (FORCE)`);
          await admin(server, `ALTER DATABASE ${copy} RENAME TO ${name}`);
        },
      };
    },
    drop() {
      dropping ??= pool.end().then(() => admin(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
      return dropping;
    },
  };
}

async function startOwn(): Promise<TestPostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-test-'));
  const postgres = await startEmbeddedPostgres({
    dataDir,
    logger: pino({ level: 'silent' }),
    // The data does not outlive the run, so durability is off.
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' },
  });
  return {
    url: postgres.connectionString,
    how: 'its own Postgres, from npm',
    async stop() {
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function dropAll(url: string, run: string): Promise<void> {
  const client = await openClient({ connectionString: url, applicationName: 'sluice-test-admin' });
  try {
    const left = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [`${run}_`],
    );
    for (const { datname } of left.rows) await client.query(`DROP DATABASE ${datname} WITH (FORCE)`);
  } finally {
    await client.end();
  }
}

async function admin(url: string, statement: string): Promise<void> {
  const client = await openClient({ connectionString: url, applicationName: 'sluice-test-admin' });
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}

/** Adds the run's template to the address's fragment, which passes it to the test processes. */
function withTemplate(url: string, template: string): string {
  return `${url}#${template}`;
}

function splitTemplate(provided: string): { server: string; template: string } {
  const url = new URL(provided);
  const template = url.hash.slice(1);
  url.hash = '';
  return { server: url.href, template };
}
