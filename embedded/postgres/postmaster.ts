import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AppError, errorCode } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { connectionStringOf } from '../../shared/postgres/connection-file.ts';
import { type PostgresBinaries, serverProcess } from './binaries.ts';
import type { Cluster } from './cluster.ts';
import { probeServer } from './probe.ts';
import { isAlive, isServerOf } from './process-table.ts';
import type { ServerUser } from './server-user.ts';

export const HOST = '127.0.0.1';

/** A server process that answers. */
export interface Postmaster {
  readonly pid: number;
  readonly port: number;
}

/** What is needed to run the server of one cluster. */
export interface ServerSetup {
  readonly cluster: Cluster;
  readonly binaries: PostgresBinaries;
  readonly serverUser: ServerUser;
  /** More server settings, by name. */
  readonly settings: Readonly<Record<string, string>>;
  readonly logger: Logger;
}

/** Recovery after a crash reads at most a gigabyte of write-ahead log; a slow disk needs minutes for it. */
const ANSWER_TIMEOUT_MS = 300_000;
/** A dead server's processes may hold its memory for a moment, and a port may be taken between choice and use. */
const RETRY_MS = 5000;
const POLL_MS = 25;
const LOG_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Resolves with a server of the cluster that answers: the one that already runs, whoever started it, else a new one
 * (on `port`, or on a free one). Waits while one starts, recovers or shuts down.
 * Throws AppError `POSTGRES_FAILED` with the reason from the server's log, or the signal's reason when aborted.
 */
export async function ensurePostmaster(
  setup: ServerSetup,
  port?: number,
  signal?: AbortSignal,
): Promise<Postmaster> {
  const answerBy = Date.now() + ANSWER_TIMEOUT_MS;
  let retryUntil: number | undefined;
  let reason = 'it does not answer';
  for (;;) {
    signal?.throwIfAborted();
    const running = await findRunning(setup.cluster);
    if (running?.port !== undefined) {
      const state = await probeServer(adminUrl(setup.cluster, running.port), setup.cluster.directory);
      if (state === 'ready') return { pid: running.pid, port: running.port };
      if (state === 'rejected') {
        retryUntil ??= Date.now() + RETRY_MS;
        reason = 'another server, or one with another password, answers on its port';
        if (Date.now() > retryUntil) break;
      }
    }
    if (running === undefined) {
      retryUntil ??= Date.now() + RETRY_MS;
      const failure = await spawnServer(setup, port ?? (await freePort()));
      if (failure !== undefined) {
        reason = failure;
        setup.logger.debug({ reason }, 'Postgres did not start');
        if (Date.now() > retryUntil) break;
        await delay(250);
      }
    }
    if (Date.now() > answerBy) break;
    await delay(POLL_MS);
  }
  throw new AppError(
    'POSTGRES_FAILED',
    `Postgres does not run: ${reason} (its log is ${setup.cluster.logFile})`,
    {
      retryable: true,
    },
  );
}

/** Ends all sessions and the server, and waits for it. Does nothing when that server is gone. */
export async function stopPostmaster(setup: ServerSetup, postmaster: Postmaster): Promise<void> {
  // SIGINT is Postgres' fast shutdown: open transactions roll back, everything is written. SIGQUIT leaves the rest to
  // recovery at the next start.
  for (const [signal, patienceMs] of [['SIGINT', 60_000] as const, ['SIGQUIT', 10_000] as const]) {
    if (!(await isServerOf(postmaster.pid, setup.cluster.directory))) return;
    try {
      process.kill(postmaster.pid, signal);
    } catch (error) {
      if (errorCode(error) === 'ESRCH') return;
      throw error;
    }
    const deadline = Date.now() + patienceMs;
    while (Date.now() < deadline) {
      if (!(await isAlive(postmaster.pid))) return;
      await delay(POLL_MS);
    }
    setup.logger.warn({ pid: postmaster.pid, signal }, 'Postgres does not stop');
  }
}

/** Begins Postgres' fast shutdown without waiting for its end, for a process that is ending itself. */
export function endPostmaster(postmaster: Postmaster): void {
  try {
    process.kill(postmaster.pid, 'SIGINT');
  } catch {
    // It is gone.
  }
}

export function adminUrl(cluster: Cluster, port: number): string {
  return connectionStringOf({
    host: HOST,
    port,
    user: cluster.user,
    password: cluster.password,
    database: 'postgres',
  });
}

/** The server named by the cluster's lock file, if it lives; its port is undefined while it starts. */
async function findRunning(cluster: Cluster): Promise<{ pid: number; port: number | undefined } | undefined> {
  const lockFile = join(cluster.directory, 'postmaster.pid');
  const content = await readIfThere(lockFile);
  if (content === undefined) return undefined;
  const lines = content.split('\n');
  const pid = Number(lines[0]);
  if (await isServerOf(pid, cluster.directory)) {
    if (await isAlive(pid)) return { pid, port: lines[3] ? Number(lines[3]) : undefined };
  } else if (processExists(pid)) {
    // Postgres clears a lock file of a dead process itself, with the checks for what that one left. It would stop
    // only at a number that now belongs to some other program.
    await removeStale(lockFile, content);
  }
  return undefined;
}

/** Removes the lock file if it still is the one that was judged: another start may just have replaced it. */
async function removeStale(lockFile: string, judged: string): Promise<void> {
  const aside = `${lockFile}.stale-${process.pid}`;
  try {
    await rename(lockFile, aside);
    if ((await readFile(aside, 'utf8')) === judged) await rm(aside);
    else await rename(aside, lockFile);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}

/** Starts the server; resolves with undefined once it wrote its lock file, or with the reason when it ended before. */
async function spawnServer(setup: ServerSetup, port: number): Promise<string | undefined> {
  const { cluster } = setup;
  const log = await openLog(cluster.logFile);
  const logStart = (await log.stat()).size;
  const child = spawn(setup.binaries.postgres, serverArguments(cluster, port, setup.settings), {
    ...serverProcess(setup.serverUser),
    // A process group of its own: a terminal's Ctrl-C is for us, and we stop the server when nothing needs it.
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
  });
  child.unref();
  let failure: string | undefined;
  // Before anything is awaited: a server that ends at once would end unheard.
  child.once('error', (error) => {
    failure = error.message;
  });
  child.once('exit', (code, signal) => {
    failure ??= `it ended with ${signal ?? `code ${code}`}`;
  });
  await log.close();
  const lockFile = join(cluster.directory, 'postmaster.pid');
  while (failure === undefined) {
    const content = await readIfThere(lockFile);
    if (content !== undefined && Number(content.split('\n')[0]) === child.pid) return undefined;
    await delay(POLL_MS);
  }
  return (await fatalLines(cluster.logFile, logStart)) ?? failure;
}

function serverArguments(
  cluster: Cluster,
  port: number,
  settings: Readonly<Record<string, string>>,
): string[] {
  const all = {
    listen_addresses: HOST,
    port: String(port),
    unix_socket_directories: '',
    max_connections: '200',
    // Errors that the code handles, and what clients sent, stay out of the log: it would grow, and it is no place for data.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_checkpoints: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...settings,
  };
  return [
    '-D',
    cluster.directory,
    ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
}

async function openLog(file: string) {
  const size = await stat(file).then(
    (stats) => stats.size,
    () => 0,
  );
  if (size > LOG_BYTES_MAX) await rename(file, `${file}.1`);
  return open(file, 'a', 0o600);
}

async function fatalLines(file: string, from: number): Promise<string | undefined> {
  const text = (await readFile(file)).subarray(from).toString('utf8');
  const lines = text.split('\n').filter((line) => /FATAL|PANIC|HINT/.test(line));
  return lines.length === 0
    ? undefined
    : lines.map((line) => line.replace(/^.*?(FATAL|PANIC|HINT):\s*/, '')).join('; ');
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function processExists(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) !== 'ESRCH';
  }
}

async function freePort(): Promise<number> {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, HOST);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
