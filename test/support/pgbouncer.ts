import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findServerUser } from '../../embedded/postgres/server-user.ts';
import { freePorts } from './program.ts';

/** `session` gives a client one session of the server, `transaction` one per transaction. */
export type PoolMode = 'session' | 'transaction';

/** A pgbouncer in front of the server of a database. */
export interface Pgbouncer {
  /** Address of the database through pgbouncer. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Debian installs it where users other than root do not look for programs. */
const PATH = `${process.env.PATH}:/usr/sbin`;

/**
 * Returns whether pgbouncer is installed. If not, prints what was not tested, or throws if
 * SLUICE_TEST_REQUIRE_PGBOUNCER is set.
 */
export function hasPgbouncer(): boolean {
  if (spawnSync('pgbouncer', ['--version'], { env: { PATH } }).status === 0) return true;
  const text = 'poolers were not tested: install pgbouncer (apt-get install pgbouncer)';
  if (process.env.SLUICE_TEST_REQUIRE_PGBOUNCER) throw new Error(text);
  console.log(`Skipped: ${text}`);
  return false;
}

/** Starts pgbouncer in front of all databases of the server of `databaseUrl`. */
export async function startPgbouncer(databaseUrl: string, mode: PoolMode): Promise<Pgbouncer> {
  const { hostname, port, username, password } = new URL(databaseUrl);
  const [ownPort] = await freePorts(1);
  const directory = await mkdtemp(join(tmpdir(), 'sluice-pgbouncer-'));
  await chmod(directory, 0o755);
  const file = join(directory, 'pgbouncer.ini');
  const users = join(directory, 'users.txt');
  await writeFile(users, `"${username}" "${decodeURIComponent(password)}"\n`, { mode: 0o644 });
  const settings = [
    '[databases]',
    `* = host=${hostname} port=${port}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${ownPort}`,
    'unix_socket_dir =',
    'auth_type = scram-sha-256',
    `auth_file = ${users}`,
    `pool_mode = ${mode}`,
    // Enough for the connections of all parts in session mode.
    `default_pool_size = ${mode === 'session' ? 100 : 10}`,
  ];
  await writeFile(file, `${settings.join('\n')}\n`, { mode: 0o644 });
  // It refuses to run as root.
  const child = spawn('pgbouncer', [file], {
    ...(await findServerUser()),
    env: { PATH },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes('process up')) resolve();
    });
    child.once('exit', () => reject(new Error(`pgbouncer ended: ${log}`)));
  });
  const killChild = () => child.kill('SIGKILL');
  process.once('exit', killChild);
  const url = new URL(databaseUrl);
  url.port = String(ownPort);
  return {
    url: url.href,
    async stop() {
      process.removeListener('exit', killChild);
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
