import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { connectionStringOf } from '../../cli/data-dir/connection-file.ts';
import { findBinaries } from '../../embedded/postgres/binaries.ts';
import { openCluster } from '../../embedded/postgres/cluster.ts';
import { ensureDatabase } from '../../embedded/postgres/create-database.ts';
import { HOST, type ServerSetup } from '../../embedded/postgres/pg-ctl.ts';
import { adminUrl, ensurePostmaster, stopPostmaster } from '../../embedded/postgres/postmaster.ts';
import { isAlive } from '../../embedded/postgres/process-table.ts';
import { findServerUser } from '../../embedded/postgres/server-user.ts';
import { descendantsOf } from './process-memory.ts';
import { sendSignal, stopProcessTree } from './stop-process.ts';
import { waitFor } from './wait.ts';

/** A Postgres of a test's own, which nobody starts again when it dies. */
export interface OwnPostgres {
  /** Of an empty database, as its superuser; the same after a restart. */
  readonly url: string;
  readonly port: number;
  /** Of the postmaster. */
  readonly pid: number;
  /** Kills the postmaster and all its backends together, as a crash of the machine does; resolves when all have ended. */
  kill(): Promise<void>;
  /** Starts it again after a kill, on the same port and data; resolves when it has recovered. */
  restart(): Promise<void>;
  /**
   * SIGSTOP of all its processes: connections stay, new ones are taken by the system, and nothing is answered. Resolves when
   * all stand still.
   */
  pause(): Promise<void>;
  /** SIGCONT of all its processes. */
  resume(): void;
  /** Stops it in order and deletes its data, unless the caller said where they are. */
  stop(): Promise<void>;
}

export interface OwnPostgresOptions {
  /** Default a temporary directory. */
  readonly dataDir?: string;
  /** Server settings by name, such as `max_connections`. What is written stays written (fsync) unless said otherwise. */
  readonly settings?: Readonly<Record<string, string>>;
}

const DATABASE = 'sluice';

/** Makes the database and starts the server on a free port. Throws AppErrors as the embedded Postgres does. Linux only. */
export async function startOwnPostgres(options: OwnPostgresOptions = {}): Promise<OwnPostgres> {
  const serverUser = await findServerUser();
  const binaries = await findBinaries(serverUser);
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'sluice-test-postgres-')));
  const cluster = await openCluster(dataDir, binaries, serverUser);
  const setup: ServerSetup = {
    cluster,
    binaries,
    serverUser,
    settings: options.settings ?? {},
    logger: pino({ level: 'silent' }),
  };
  let postmaster = await ensurePostmaster(setup);
  const { port } = postmaster;
  let down = false;

  // A run that ends early must not leave its server running.
  const killAll = () => {
    if (down) return [];
    // Stopped first: it could start one more backend between the look and the kill.
    sendSignal(postmaster.pid, 'SIGSTOP');
    const pids = [postmaster.pid, ...descendantsOf(postmaster.pid)];
    for (const pid of pids) sendSignal(pid, 'SIGKILL');
    down = true;
    return pids;
  };
  process.once('exit', killAll);
  const resume = () => {
    for (const pid of [...descendantsOf(postmaster.pid), postmaster.pid]) sendSignal(pid, 'SIGCONT');
  };
  await ensureDatabase(adminUrl(cluster, port), DATABASE);
  const { user, password } = cluster;
  return {
    url: connectionStringOf({ host: HOST, port, user, password, database: DATABASE }),
    port,
    get pid() {
      return postmaster.pid;
    },
    async kill() {
      for (const pid of killAll()) {
        await waitFor(async () => !(await isAlive(pid)), {
          timeoutMs: 10_000,
          what: `the end of process ${pid}`,
        });
      }
    },
    async restart() {
      postmaster = await ensurePostmaster(setup, port);
      down = false;
    },
    pause: () => stopProcessTree(postmaster.pid),
    resume,
    async stop() {
      process.removeListener('exit', killAll);
      if (!down) {
        resume();
        await stopPostmaster(setup, postmaster);
        down = true;
      }
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}
