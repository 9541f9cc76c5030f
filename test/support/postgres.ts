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
import { addNodes, type CitusNode, distributeTables, findCitusCluster, onServer } from './citus.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgres: ProvidedPostgres;
  }
}

/** What test files need of the run's Postgres. */
export interface ProvidedPostgres {
  /**
   * Addresses of a database on each server, in which others can be created: one server, or the
   * nodes of a Citus cluster, the coordinator first.
   */
  readonly servers: readonly string[];
  /** Name of the database on each server that test databases are copied from. */
  readonly template: string;
}

/** The Postgres of one test run. */
export interface TestPostgres {
  readonly provided: ProvidedPostgres;
  /** A description of the server, for people. */
  readonly how: string;
  stop(): Promise<void>;
}

interface Server {
  readonly urls: readonly string[];
  readonly how: string;
  /** Set if the servers are a Citus cluster. */
  readonly nodes?: readonly CitusNode[];
  /** Whether the server outlives the run. */
  readonly given: boolean;
  stop(): Promise<void>;
}

/** A database of one test file, with all migrations applied. */
export interface TestDatabase {
  readonly url: string;
  readonly pool: Pool;
  /** Resolves with the number of sessions that wait for a lock, of a cluster on all nodes. */
  countLockWaits(): Promise<number>;
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
 * Starts the run's only Postgres, or uses a Citus cluster (see {@link findCitusCluster}) or the server of
 * TEST_DATABASE_URL, whose role must be allowed to create databases. Creates the template that every
 * test database is copied from.
 */
export async function startTestPostgres(): Promise<TestPostgres> {
  const server = await findServer();
  const run = `${PREFIX}_${process.pid}`;
  const template = `${run}_template`;
  try {
    await createTemplate(server, template);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return {
    provided: { servers: server.urls, template },
    how: server.how,
    async stop() {
      // Drops the template and all copies: a killed test file has dropped nothing.
      if (server.given) await Promise.all(server.urls.map((url) => dropAll(url, run)));
      await server.stop();
    },
  };
}

async function findServer(): Promise<Server> {
  const citus = await findCitusCluster();
  if (!('skipped' in citus)) return { ...citus, urls: citus.nodes.map(({ url }) => url), given: true };
  const url = process.env.TEST_DATABASE_URL;
  const server = url
    ? { urls: [url], how: 'the server of TEST_DATABASE_URL', given: true, stop: async () => {} }
    : await startOwn();
  return { ...server, how: `${server.how} (no Citus: ${citus.skipped})` };
}

async function createTemplate({ urls, nodes }: Server, template: string): Promise<void> {
  await onServers(urls, `DROP DATABASE IF EXISTS ${template}`, `CREATE DATABASE ${template}`);
  const [connectionString, ...others] = urls.map((url) => withDatabase(url, template));
  if (nodes) await addNodes([connectionString!, ...others], nodes);
  await migrate({ connectionString: connectionString!, logger: pino({ level: 'silent' }) });
  if (!nodes) return;
  const pool = openPool(connectionString!);
  await distributeTables(pool).finally(() => pool.end());
  // The maintenance daemon of a database stays connected to it, and a database can only be copied
  // while nobody is connected.
  await disconnectAll(urls, template);
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
  const { servers, template } = inject('postgres');
  const name = template.replace(/template$/, randomBytes(6).toString('hex'));
  // Nodes of a cluster connect to the database of the same name, so the copies are a cluster, too.
  await onServers(servers, `CREATE DATABASE ${name} TEMPLATE ${template}`);
  const url = withDatabase(servers[0]!, name);
  const pool = openPool(url);
  pool.isCitus = servers.length > 1;
  let dropping: Promise<void> | undefined;
  return {
    url,
    pool,
    async countLockWaits() {
      const waits = await Promise.all(servers.map((server) => countLockWaits(withDatabase(server, name))));
      return waits.reduce((total, waiting) => total + waiting, 0);
    },
    async backUp() {
      const copy = `${name}_copy`;
      await disconnectAll(servers, name);
      await onServers(
        servers,
        `CREATE DATABASE ${copy} TEMPLATE ${name}`,
        `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`,
      );
      return {
        restore: () =>
          onServers(
            servers,
            `DROP DATABASE ${name} WITH (FORCE)`,
            `ALTER DATABASE ${copy} RENAME TO ${name}`,
          ),
      };
    },
    drop() {
      dropping ??= pool.end().then(() => dropDatabase(servers, name));
      return dropping;
    },
  };
}

function openPool(connectionString: string): Pool {
  return createPool({
    connectionString,
    max: 10,
    applicationName: 'sluice-test',
    logger: pino({ level: 'silent' }),
    pipeline: true,
  });
}

async function startOwn(): Promise<Server> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-test-'));
  const postgres = await startEmbeddedPostgres({
    dataDir,
    logger: pino({ level: 'silent' }),
    // The data does not outlive the run, so durability is off.
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' },
  });
  return {
    urls: [postgres.connectionString],
    how: 'its own Postgres, from npm',
    given: false,
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

async function countLockWaits(url: string): Promise<number> {
  const { rows } = await onServer<{ waiting: number }>(url, [
    `select count(*)::int as waiting from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`,
  ]);
  return rows[0]!.waiting;
}

async function dropDatabase(servers: readonly string[], name: string): Promise<void> {
  // A maintenance daemon of Citus may start while the other sessions are ended.
  if (servers.length > 1) await disconnectAll(servers, name);
  await onServers(servers, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
}

/** Prevents connections to the database until ALLOW_CONNECTIONS is true, and ends all sessions. */
async function disconnectAll(servers: readonly string[], name: string): Promise<void> {
  await onServers(
    servers,
    `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`,
  );
}

/** Runs the statements on all servers, each server's in order. */
async function onServers(servers: readonly string[], ...statements: string[]): Promise<void> {
  await Promise.all(servers.map((url) => onServer(url, statements)));
}

function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
