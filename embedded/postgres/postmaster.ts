import { once } from 'node:events';
import { readFile, rename, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectionStringOf } from '../../cli/data-dir/connection-file.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { openClient } from '../../shared/postgres/client.ts';
import type { Cluster } from './cluster.ts';
import { HOST, runPgCtl, type ServerSetup, START_TIMEOUT_MS, startServer } from './pg-ctl.ts';
import { isAlive, isServerOf } from './process-table.ts';

/** A running server of a cluster. */
export interface Postmaster {
  readonly pid: number;
  readonly port: number;
}

/**
 * Milliseconds during which failed starts are retried. Processes of a dead server may hold its
 * shared memory briefly, and another program may take the chosen port.
 */
const RETRY_MS = 5000;
const RETRY_PAUSE_MS = 250;
const POLL_MS = 25;
const CONNECT_TIMEOUT_MS = 2000;
/**
 * `fast` rolls back open transactions and writes all data to disk. `immediate` leaves that to
 * recovery at the next start.
 */
const STOP_MODES = [
  { mode: 'fast', timeoutMs: 60_000 },
  { mode: 'immediate', timeoutMs: 10_000 },
];

/**
 * Resolves with a server of the cluster that answers: a running one, else a new one on `port` or on
 * a free port. Waits while a server starts, recovers or shuts down. Throws AppError
 * `POSTGRES_FAILED` with the reason from the server's log, or the signal's reason when aborted.
 */
export async function ensurePostmaster(
  setup: ServerSetup,
  port?: number,
  signal?: AbortSignal,
): Promise<Postmaster> {
  let giveUpAt = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    signal?.throwIfAborted();
    const attempt = await findOrStart(setup, port, signal);
    if ('pid' in attempt) return attempt;
    const { failed, reason } = attempt;
    if (failed) giveUpAt = Math.min(giveUpAt, performance.now() + RETRY_MS);
    if (performance.now() > giveUpAt) {
      const message = `Postgres does not run: ${reason} (its log is ${setup.cluster.logFile})`;
      throw new AppError('POSTGRES_FAILED', message, { retryable: true });
    }
    await delay(failed ? RETRY_PAUSE_MS : POLL_MS);
  }
}

/** The reason why no server answers. If `failed` is false, the server only needs more time. */
interface NoServer {
  readonly failed: boolean;
  readonly reason: string;
}

async function findOrStart(
  setup: ServerSetup,
  port: number | undefined,
  signal: AbortSignal | undefined,
): Promise<Postmaster | NoServer> {
  const running = await findRunning(setup.cluster);
  if (running === undefined) {
    const failure = await startServer(setup, port ?? (await freePort()), signal);
    if (failure === undefined) return { failed: false, reason: 'it has just started' };
    setup.logger.debug({ reason: failure }, 'embedded Postgres start failed');
    return { failed: true, reason: failure };
  }
  const { status, ...postmaster } = running;
  if (status !== 'ready') return { failed: false, reason: `it is ${status}` };
  try {
    const connectionString = adminUrl(setup.cluster, postmaster.port);
    const options = { applicationName: 'sluice-probe', connectionTimeoutMs: CONNECT_TIMEOUT_MS };
    await (await openClient({ connectionString, ...options })).end();
    return postmaster;
  } catch (error) {
    // A wrong password (SQLSTATE class 28) is permanent. Other errors are temporary: during crash
    // recovery, the server refuses connections.
    return { failed: errorCode(error)?.startsWith('28') ?? false, reason: errorMessage(error) };
  }
}

/**
 * Stops the server and all its sessions, and waits until the server has exited. Does nothing if the
 * server no longer runs.
 */
export async function stopPostmaster(setup: ServerSetup, { pid }: Postmaster): Promise<void> {
  for (const { mode, timeoutMs } of STOP_MODES) {
    // If the server is dead, pg_ctl would signal the program that reuses its process id.
    if (!(await isServerOf(pid, setup.cluster.directory))) return;
    const failure = await runPgCtl(setup, ['stop', '-m', mode, '-t', `${timeoutMs / 1000}`], 'ignore');
    if (failure === undefined) break;
    setup.logger.warn({ pid, mode, reason: failure }, 'embedded Postgres stop timed out');
  }
  // The server removes its lock file shortly before it exits.
  const endBy = performance.now() + RETRY_MS;
  while ((await isAlive(pid)) && performance.now() < endBy) await delay(POLL_MS);
}

/** Requests a fast shutdown without waiting for its end. Used when this process exits. */
export function endPostmaster(postmaster: Postmaster): void {
  try {
    process.kill(postmaster.pid, 'SIGINT');
  } catch {
    // The server has already exited.
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

/** Lines of `postmaster.pid`, from 0 (Postgres: src/include/utils/pidfile.h). */
const LOCK_FILE_LINES = { pid: 0, port: 3, status: 7 };

/**
 * Returns the server in the cluster's lock file, if that server is alive. `status` is starting,
 * ready or stopping.
 */
async function findRunning(cluster: Cluster): Promise<(Postmaster & { status: string }) | undefined> {
  const lockFile = join(cluster.directory, 'postmaster.pid');
  const content = await readIfThere(lockFile);
  if (content === undefined) return undefined;
  const lines = content.split('\n');
  const pid = Number(lines[LOCK_FILE_LINES.pid]);
  if (await isServerOf(pid, cluster.directory)) {
    if (!(await isAlive(pid))) return undefined;
    const status = lines[LOCK_FILE_LINES.status]?.trim() || 'starting';
    return { pid, port: Number(lines[LOCK_FILE_LINES.port]), status };
  }
  // At its start, Postgres removes the lock file of a dead server. But Postgres refuses to start if
  // another program has the process id of the dead server.
  if (processExists(pid)) await removeStale(lockFile, content);
  return undefined;
}

/**
 * Removes the lock file if its content is still `judged`: a concurrent start may have replaced the
 * file.
 */
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
