import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { type PostgresBinaries, serverProcess } from './binaries.ts';
import type { Cluster } from './cluster.ts';
import type { ServerUser } from './server-user.ts';

export const HOST = '127.0.0.1';

/** The parameters of the server of one cluster. */
export interface ServerSetup {
  readonly cluster: Cluster;
  readonly binaries: PostgresBinaries;
  readonly serverUser: ServerUser;
  /** Additional server settings, by name. */
  readonly settings: Readonly<Record<string, string>>;
  readonly logger: Logger;
}

/**
 * Timeout of a server start. Crash recovery reads at most 1 GB of write-ahead log, which can take
 * minutes on a slow disk.
 */
export const START_TIMEOUT_MS = 300_000;
const LOG_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Starts the server and waits until it is ready. Resolves with the reason if the start failed, else
 * with undefined.
 */
export async function startServer(
  setup: ServerSetup,
  port: number,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { logFile } = setup.cluster;
  const log = await openLog(logFile);
  try {
    const logStart = (await log.stat()).size;
    const options = serverArguments(setup, port).map(shellQuoted).join(' ');
    // pg_ctl passes the program's path to a shell within double quotes, which would expand a `$`.
    // So the path is relative to the working directory.
    const args = ['start', '-p', './postgres', '-t', `${START_TIMEOUT_MS / 1000}`, '-o', options];
    const failure = await runPgCtl(setup, args, log.fd, signal);
    return failure && ((await fatalLines(logFile, logStart)) ?? failure);
  } finally {
    await log.close();
  }
}

/**
 * Runs pg_ctl on the cluster. Resolves with the reason if pg_ctl failed, else with undefined.
 * pg_ctl has a process group of its own: Ctrl-C in a terminal must reach only this process, which
 * stops the server last.
 */
export async function runPgCtl(
  { cluster, binaries, serverUser }: ServerSetup,
  args: readonly string[],
  output: number | 'ignore',
  signal?: AbortSignal,
): Promise<string | undefined> {
  const { env, ...run } = serverProcess(serverUser);
  const child = spawn(join(binaries.directory, 'pg_ctl'), ['-s', ...args], {
    ...run,
    cwd: binaries.directory,
    env: { ...env, PGDATA: cluster.directory },
    detached: true,
    stdio: ['ignore', output, output],
    // During a start, pg_ctl forwards SIGINT to the server.
    ...(signal && { signal, killSignal: 'SIGINT' as const }),
  });
  try {
    const [code, endSignal] = await once(child, 'exit');
    return code === 0 ? undefined : `pg_ctl ended with ${endSignal ?? `code ${code}`}`;
  } catch (error) {
    return errorMessage(error);
  }
}

function serverArguments({ cluster, settings }: ServerSetup, port: number): string[] {
  const all = {
    listen_addresses: HOST,
    port: String(port),
    unix_socket_directories: '',
    max_connections: '200',
    // Keeps errors that the code handles, and values that clients sent, out of the server's log. So
    // the log stays small and holds no customer data.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_checkpoints: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...settings,
  };
  // `-D` repeats the directory so that `ps` shows to which data directory the server belongs.
  const values = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return ['-D', cluster.directory, ...values];
}

function shellQuoted(argument: string): string {
  return `'${argument.replaceAll("'", "'\\''")}'`;
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
