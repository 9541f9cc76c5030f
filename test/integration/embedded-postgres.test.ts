import { type ChildProcess, execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { readConnectionFile } from '../../cli/data-dir/connection-file.ts';
import { startEmbeddedPostgres } from '../../embedded/postgres/postgres.ts';
import { isAlive } from '../../embedded/postgres/process-table.ts';
import type { AppError } from '../../shared/errors.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { waitFor } from '../support/wait.ts';

const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
const settings = { fsync: 'off' };
const isRoot = process.getuid?.() === 0;

/**
 * A database that was created and stopped. Most tests start with a copy, because creating one takes
 * seconds.
 */
let madeDir: string;
let dataDir: string;

beforeAll(async () => {
  const parent = await makeParent();
  madeDir = join(parent, 'made');
  await (await startEmbeddedPostgres({ dataDir: madeDir, logger, settings })).stop();
  return () => rm(parent, { recursive: true, force: true });
});

beforeEach(async () => {
  const parent = await makeParent();
  dataDir = join(parent, 'data');
  onTestFinished(async () => {
    await killServer();
    await rm(parent, { recursive: true, force: true });
  });
});

async function makeParent(): Promise<string> {
  const parent = await realpath(await mkdtemp(join(tmpdir(), 'sluice-embedded-')));
  if (isRoot) await chmod(parent, 0o711);
  return parent;
}

/** Copies the prepared database. `cp -a` keeps its owner, which Node's own copy does not. */
async function useMadeDatabase(): Promise<void> {
  await promisify(execFile)('cp', ['-a', madeDir, dataDir]);
}

test('embedded Postgres creates a database that only its owner can reach, keeps it over a restart, and stops the server', async () => {
  const first = await start();
  await query(first.connectionString, 'CREATE TABLE kept AS SELECT 7 AS value');
  expect(await readConnectionFile(dataDir)).toEqual(first.connection);
  expect((await stat(join(dataDir, 'postgres.json'))).mode & 0o777).toBe(0o600);
  expect((await stat(dataDir)).mode & 0o777).toBe(isRoot ? 0o711 : 0o700);
  expect(first.connection.host).toBe('127.0.0.1');
  const wrong = first.connectionString.replace(first.connection.password, 'wrong');
  await expect(query(wrong, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  expect(await query(first.connectionString, 'SHOW server_encoding')).toEqual([{ server_encoding: 'UTF8' }]);
  const pid = await serverPid();
  await first.stop();
  expect(await isAlive(pid)).toBe(false);
  expect(await readConnectionFile(dataDir)).toBeUndefined();

  const second = await start();
  expect(await query(second.connectionString, 'SELECT value FROM kept')).toEqual([{ value: 7 }]);
});

test('embedded Postgres refuses a start next to a running instance, names its process id, and does not disturb it', async () => {
  await useMadeDatabase();
  const owner = await startOwner();
  await expect(start()).rejects.toMatchObject({
    code: 'ALREADY_RUNNING',
    message: expect.stringContaining(`(process ${owner.child.pid})`),
  });
  expect(await query(owner.connectionString, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

test('embedded Postgres adopts the server that a killed process left running', async () => {
  await useMadeDatabase();
  const owner = await startOwner();
  await query(owner.connectionString, 'CREATE TABLE kept AS SELECT 7 AS value');
  const pid = await serverPid();
  await kill(owner.child);
  expect(await isAlive(pid)).toBe(true);
  const next = await start();
  expect(await serverPid()).toBe(pid);
  expect(next.connectionString).toBe(owner.connectionString);
  expect(await query(next.connectionString, 'SELECT value FROM kept')).toEqual([{ value: 7 }]);
  await next.stop();
  expect(await isAlive(pid)).toBe(false);
});

test('embedded Postgres recovers after process and server were killed together', async () => {
  await useMadeDatabase();
  const owner = await startOwner();
  await query(owner.connectionString, 'CREATE TABLE kept AS SELECT 7 AS value');
  const pid = await serverPid();
  process.kill(pid, 'SIGKILL');
  await kill(owner.child);
  const next = await start();
  expect(await serverPid()).not.toBe(pid);
  expect(await query(next.connectionString, 'SELECT value FROM kept')).toEqual([{ value: 7 }]);
});

test('embedded Postgres waits for a server that is shutting down', async () => {
  await useMadeDatabase();
  const owner = await startOwner();
  const pid = await serverPid();
  await kill(owner.child);
  // A smart shutdown waits for this session and rejects new ones.
  const session = await openClient({ connectionString: owner.connectionString, applicationName: 'test' });
  process.kill(pid, 'SIGTERM');
  await waitFor(
    () =>
      query(owner.connectionString, 'SELECT 1').then(
        () => false,
        () => true,
      ),
    { timeoutMs: 5000, what: 'the refusal of new sessions' },
  );
  const starting = start();
  await session.end();
  await starting;
  expect(await serverPid()).not.toBe(pid);
});

test('embedded Postgres restarts a killed server on the same port, so that pools recover', async () => {
  await useMadeDatabase();
  const postgres = await start();
  const pool = createPool({
    connectionString: postgres.connectionString,
    max: 2,
    applicationName: 'test',
    logger,
  });
  onTestFinished(() => pool.end());
  for (const round of [1, 2]) {
    const pid = await serverPid();
    await pool.query('SELECT 1');
    process.kill(pid, 'SIGKILL');
    await waitFor(async () => (await serverPid()) !== pid && (await pool.query('SELECT 1')).rowCount === 1, {
      timeoutMs: 20_000,
      what: `an answer after kill ${round}`,
    });
  }
  // This process still owns the server.
  await expect(startOwner()).rejects.toMatchObject({ code: 'ALREADY_RUNNING' });
});

test('embedded Postgres notices within seconds that the server was killed', async () => {
  await useMadeDatabase();
  const messages: string[] = [];
  const watched = pino(
    { level: 'warn' },
    { write: (line: string) => void messages.push(JSON.parse(line).msg) },
  );
  await start({ logger: watched });
  process.kill(await serverPid(), 'SIGKILL');
  await waitFor(() => messages.includes('embedded Postgres connection lost'), {
    timeoutMs: 3000,
    what: 'the loss to be logged',
  });
});

test('embedded Postgres runs on a data directory whose name a shell would change', async () => {
  dataDir = join(dataDir, `it's "$HOME" \`id\``);
  await mkdir(join(dataDir, '..'));
  if (isRoot) await chmod(join(dataDir, '..'), 0o711);
  await useMadeDatabase();
  const postgres = await start();
  expect(await query(postgres.connectionString, 'SHOW data_directory')).toEqual([
    { data_directory: join(dataDir, 'postgres') },
  ]);
});

test('embedded Postgres reports when another process has become the owner', async () => {
  await useMadeDatabase();
  const lost: AppError[] = [];
  const postgres = await start({ onLost: (error) => lost.push(error) });
  const usurper = await openClient({
    connectionString: postgres.connectionString,
    applicationName: `sluice-instance ${process.pid}`,
  });
  onTestFinished(() => usurper.end());
  const taken = usurper.query(
    "SELECT pg_advisory_lock(classid::int, objid::int) FROM pg_locks WHERE locktype = 'advisory' AND granted",
  );
  await waitFor(
    async () =>
      (
        await query(
          postgres.connectionString,
          "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'",
        )
      ).length,
    { timeoutMs: 5000, what: 'the other process to wait for the lock' },
  );
  await query(
    postgres.connectionString,
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
  );
  await taken;
  await waitFor(() => lost.length > 0, { timeoutMs: 10_000, what: 'onLost' });
  expect(lost.map(({ code }) => code)).toEqual(['ALREADY_RUNNING']);
  // `stop` does not stop another owner's server.
  const pid = await serverPid();
  await postgres.stop();
  expect(await isAlive(pid)).toBe(true);
});

test('embedded Postgres makes one of two concurrent first starts the owner', async () => {
  const attempts = await Promise.allSettled([startOwner(), startOwner()]);
  const owners = attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []));
  const refusals = attempts.flatMap((attempt) =>
    attempt.status === 'rejected' ? [attempt.reason.code] : [],
  );
  expect(refusals).toEqual(['ALREADY_RUNNING']);
  expect(await query(owners[0]!.connectionString, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect((await readdir(dataDir)).filter((name) => name.includes('unfinished'))).toEqual([]);
});

test('embedded Postgres initialises the database again after a kill during the initialisation', async () => {
  const child = forkOwner();
  await waitFor(async () => (await readdir(dataDir)).some((name) => name.startsWith('postgres.unfinished')), {
    timeoutMs: 10_000,
    what: 'the initialisation',
  });
  await kill(child);
  const postgres = await start();
  expect(await query(postgres.connectionString, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  await postgres.stop();
  await (await start()).stop();
  expect((await readdir(dataDir)).filter((name) => name.includes('unfinished'))).toEqual([]);
});

test('embedded Postgres starts with a lock file whose process id now belongs to another program', async () => {
  await useMadeDatabase();
  await (await start()).stop();
  await writeFile(
    join(dataDir, 'postgres', 'postmaster.pid'),
    `${process.pid}\n${join(dataDir, 'postgres')}\n1\n5432\n`,
  );
  const postgres = await start();
  expect(await query(postgres.connectionString, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

describe('names the remedy in one sentence for', () => {
  test('a data directory that cannot be written', async () => {
    await writeFile(dataDir, 'a file');
    await expect(start()).rejects.toMatchObject({
      code: 'DATA_DIR_UNUSABLE',
      message: expect.stringContaining('SLUICE_DATA_DIR'),
    });
  });

  test('a database of another major version', async () => {
    await mkdir(join(dataDir, 'postgres'), { recursive: true });
    await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '12\n');
    await expect(start()).rejects.toMatchObject({
      code: 'POSTGRES_VERSION_MISMATCH',
      message: expect.stringContaining('Postgres 12'),
    });
  });

  test('a directory that holds something else', async () => {
    await mkdir(join(dataDir, 'postgres'), { recursive: true });
    await expect(start()).rejects.toMatchObject({ code: 'DATA_DIR_UNUSABLE' });
  });

  test('a server that does not start', async () => {
    await useMadeDatabase();
    await expect(start({ settings: { shared_buffers: 'nonsense' } })).rejects.toMatchObject({
      code: 'POSTGRES_FAILED',
      message: expect.stringContaining('shared_buffers'),
    });
  });
});

describe.runIf(isRoot)('in a directory that only root may enter', () => {
  test('stores the database elsewhere, with a link in the data directory', async () => {
    await chmod(join(dataDir, '..'), 0o700);
    const first = await start();
    const place = await realpath(join(dataDir, 'postgres'));
    expect(place.startsWith(dataDir)).toBe(false);
    onTestFinished(() => rm(dirname(place), { recursive: true, force: true }));
    await query(first.connectionString, 'CREATE TABLE kept (one int)');
    await first.stop();
    const second = await start();
    expect(await query(second.connectionString, 'SELECT * FROM kept')).toEqual([]);
    await second.stop();
    await rm(dirname(place), { recursive: true });
    await expect(start()).rejects.toMatchObject({ code: 'DATA_DIR_UNUSABLE' });
  });
});

async function start(options: Partial<Parameters<typeof startEmbeddedPostgres>[0]> = {}) {
  const postgres = await startEmbeddedPostgres({ dataDir, logger, settings, ...options });
  onTestFinished(() => postgres.stop());
  return postgres;
}

/**
 * Starts the server in a separate process. Rejects with the code and message that the process
 * reported.
 */
async function startOwner(): Promise<{ child: ChildProcess; connectionString: string }> {
  const child = forkOwner();
  const [message] = (await once(child, 'message')) as [
    { connectionString?: string; code?: string; message?: string },
  ];
  if (message.connectionString === undefined)
    throw Object.assign(new Error(message.message), { code: message.code });
  return { child, connectionString: message.connectionString };
}

function forkOwner(): ChildProcess {
  const script = join(import.meta.dirname, '../support/embedded-postgres-child.mjs');
  const child = fork(script, [dataDir], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  onTestFinished(() => kill(child));
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function serverPid(): Promise<number> {
  return Number((await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0]);
}

/** Kills the server after a test that leaves it without an owner. */
async function killServer(): Promise<void> {
  if (!existsSync(join(dataDir, 'postgres', 'postmaster.pid'))) return;
  const pid = await serverPid();
  if (pid === process.pid || !(await isAlive(pid))) return;
  process.kill(pid, 'SIGQUIT');
  await waitFor(async () => !(await isAlive(pid)), { timeoutMs: 10_000, what: 'the end of the server' });
}

async function query(connectionString: string, text: string): Promise<unknown[]> {
  const client = await openClient({ connectionString, applicationName: 'test' });
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
