import { type Config, type DatabaseSetting, ignorePostgresVariables } from '../shared/config/config.ts';
import { AppError, errorMessage } from '../shared/errors.ts';
import type { Logger } from '../shared/logging.ts';
import { createPool, type Pool } from '../shared/postgres/pool.ts';
import { databaseTrouble } from '../shared/postgres/refusals.ts';
import { findCitus } from '../shared/postgres/server-facts.ts';
import { connectionStringOf, readConnectionFile } from './data-dir/connection-file.ts';

/** A pooler without a free session accepts connections and does not answer. */
const ANSWER_TIMEOUT_MS = 10_000;

export interface OpenDatabase {
  readonly pool: Pool;
  readonly connectionString: string;
  /** Whether this is the database of the embedded instance on SLUICE_DATA_DIR. */
  readonly embedded: boolean;
}

/**
 * Opens the database of DATABASE_URL or, if that is not set, of the embedded instance on
 * SLUICE_DATA_DIR. Throws AppError `DATABASE_UNAVAILABLE` (retryable) or `DATA_DIR_UNREADABLE`.
 */
export async function openDatabase(config: Config<DatabaseSetting>, logger: Logger): Promise<OpenDatabase> {
  const embedded = config.DATABASE_URL === undefined;
  if (embedded) ignorePostgresVariables();
  const connectionString = config.DATABASE_URL ?? (await embeddedConnectionString(config.SLUICE_DATA_DIR));
  const pool = createPool({ connectionString, max: 2, applicationName: 'sluice-cli', logger });
  try {
    await findCitus(pool, {
      query: (text) => pool.query({ text: text as string, query_timeout: ANSWER_TIMEOUT_MS }),
    });
  } catch (error) {
    await pool.end();
    throw new AppError(
      'DATABASE_UNAVAILABLE',
      embedded ? nothingRuns(config.SLUICE_DATA_DIR) : databaseTrouble(error),
      { retryable: true, cause: error },
    );
  }
  return { pool, connectionString, embedded };
}

async function embeddedConnectionString(dataDir: string): Promise<string> {
  let connection: Awaited<ReturnType<typeof readConnectionFile>>;
  try {
    connection = await readConnectionFile(dataDir);
  } catch (error) {
    throw new AppError(
      'DATA_DIR_UNREADABLE',
      `SLUICE_DATA_DIR ${dataDir} cannot be read: ${errorMessage(error)}`,
      {
        cause: error,
      },
    );
  }
  if (!connection) throw new AppError('DATABASE_UNAVAILABLE', nothingRuns(dataDir), { retryable: true });
  return connectionStringOf(connection);
}

function nothingRuns(dataDir: string): string {
  return `no embedded instance runs on ${dataDir}: start one with \`npm start\`, or set DATABASE_URL (or SLUICE_DATA_DIR)`;
}
