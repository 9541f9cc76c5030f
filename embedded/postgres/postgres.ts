import {
  connectionStringOf,
  type DatabaseConnection,
  removeConnectionFile,
  writeConnectionFile,
} from '../../cli/data-dir/connection-file.ts';
import type { AppError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { findBinaries } from './binaries.ts';
import { openCluster } from './cluster.ts';
import { ensureDatabase } from './create-database.ts';
import { takeInstanceLock } from './instance-lock.ts';
import { HOST, type ServerSetup } from './pg-ctl.ts';
import { adminUrl, endPostmaster, ensurePostmaster, stopPostmaster } from './postmaster.ts';
import { findServerUser } from './server-user.ts';
import { ServerSupervisor } from './supervisor.ts';

export interface EmbeddedPostgresOptions {
  /**
   * Contains the database (`postgres/`), its log (`postgres.log`) and its connection
   * (`postgres.json`, mode 0600).
   */
  readonly dataDir: string;
  readonly logger: Logger;
  /**
   * Called once when another process has become the owner of the data directory. The caller should
   * exit.
   */
  onLost?(error: AppError): void;
  /** Additional server settings, by name. Tests turn fsync off. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** A running database that belongs to this process. */
export interface EmbeddedPostgres {
  readonly connectionString: string;
  readonly connection: DatabaseConnection;
  /**
   * Stops the server, even if an earlier process started it. Close all other connections to the
   * server first.
   */
  stop(): Promise<void>;
}

const DATABASE = 'sluice';

/**
 * Runs Postgres on the data directory, which is created if missing, and makes this process its
 * owner. Reuses a server that an earlier process left running. Restarts a server that dies, on the
 * same port. Throws AppErrors, not retryable unless noted: `ALREADY_RUNNING` (another live process
 * owns the directory), `DATA_DIR_UNUSABLE`, `SERVER_USER_MISSING`, `POSTGRES_BINARIES_UNUSABLE`,
 * `POSTGRES_VERSION_MISMATCH`, `POSTGRES_FAILED` (retryable).
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, logger } = options;
  const serverUser = await findServerUser();
  const binaries = await findBinaries(serverUser);
  const cluster = await openCluster(dataDir, binaries, serverUser);
  const setup: ServerSetup = { cluster, binaries, serverUser, settings: options.settings ?? {}, logger };
  const postmaster = await ensurePostmaster(setup);
  const { port } = postmaster;
  await ensureDatabase(adminUrl(cluster, port), DATABASE);
  const connection = { host: HOST, port, user: cluster.user, password: cluster.password, database: DATABASE };
  const connectionString = connectionStringOf(connection);
  const lock = await takeInstanceLock(connectionString);
  await writeConnectionFile(dataDir, connection);
  const supervisor = new ServerSupervisor({
    postmaster,
    lock,
    ensure: (signal) => ensurePostmaster(setup, port, signal),
    takeLock: () => takeInstanceLock(connectionString),
    onLost: (error) => options.onLost?.(error),
    logger,
  });
  // Stops the server if the process exits without `stop`, for example after a second signal, the
  // grace period or an uncaught exception.
  const endServer = () => {
    const owned = supervisor.owned();
    if (owned) endPostmaster(owned.postmaster);
  };
  process.once('exit', endServer);
  return {
    connectionString,
    connection,
    async stop() {
      const owned = await supervisor.end();
      if (owned !== undefined) {
        await removeConnectionFile(dataDir);
        await stopPostmaster(setup, owned.postmaster);
        await owned.lock.release().catch(() => undefined);
      }
      process.removeListener('exit', endServer);
    },
  };
}
