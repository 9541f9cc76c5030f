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

/** A Postgres server of one test, without a supervisor that would restart it. */
export interface OwnPostgres {
  /**
   * Address of an empty database, with the superuser's role. The address does not change across
   * restarts.
   */
  readonly url: string;
  readonly port: number;
  /** Process id of the postmaster. */
  readonly pid: number;
  /**
   * Kills the postmaster and all its backends together, as a machine crash does; resolves when all
   * have exited.
   */
  kill(): Promise<void>;
  /**
   * Restarts the server after a kill, with the same port and data; resolves when recovery is
   * complete.
   */
  restart(): Promise<void>;
  /**
   * Sends SIGSTOP to all server processes; resolves when all are stopped. Connections stay open,
   * the kernel accepts new ones, and no request is answered.
   */
  pause(): Promise<void>;
  /** Sends SIGCONT to all server processes. */
  resume(): void;
  /** Shuts the server down and deletes its data, unless the caller chose the directory. */
  stop(): Promise<void>;
}

export interface OwnPostgresOptions {
  /** Data directory. Default: a temporary directory. */
  readonly dataDir?: string;
  /** Server settings by name, such as `max_connections`. Fsync is on unless set otherwise. */
  readonly settings?: Readonly<Record<string, string>>;
}

const DATABASE = 'sluice';

/**
 * Creates the database and starts the server on a free port. Throws the AppErrors of the embedded
 * Postgres. Linux only.
 */
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

  // Kills the server if the test run exits early.
  const killAll = () => {
    if (down) return [];
    // The postmaster is stopped first, because it could fork another backend before the kill.
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
