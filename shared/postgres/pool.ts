import pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';
import type { Logger } from '../logging.ts';

/** Anything that runs statements: the pool, or one connection inside a transaction. */
export interface Queryable {
  query<Row extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values?: unknown[],
  ): Promise<pg.QueryResult<Row>>;
}

export type Pool = pg.Pool;
export type PoolClient = pg.PoolClient;

export interface PoolOptions {
  readonly connectionString: string;
  /** Connections at most. */
  readonly max: number;
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly logger: Logger;
  /** Milliseconds to wait for a connection. Default 5000. */
  readonly connectionTimeoutMs?: number;
  /**
   * Milliseconds without an answer after which a statement is given up and its connection thrown away: a server, or a
   * network, that went silent tells nobody. Default: none.
   */
  readonly answerTimeoutMs?: number;
}

/** A connection that does not even answer a rollback is thrown away. */
const ROLLBACK_TIMEOUT_MS = 5000;

/**
 * A pool whose int8 values arrive as bigint and whose timestamptz values arrive as Date (we keep milliseconds there;
 * nanoseconds live in int8 columns). A database that goes away never ends the process.
 */
export function createPool(options: PoolOptions): Pool {
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, (text) => BigInt(text));
  const pool = new pg.Pool({
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectionTimeoutMs ?? 5000,
    types,
    ...(options.answerTimeoutMs !== undefined && { query_timeout: options.answerTimeoutMs }),
    // Read here and not by each connection: a certificate's file that is gone later must not end the process.
    ...parseIntoClientConfig(options.connectionString),
  });
  // Without a handler, the end of an idle connection would end the process.
  pool.on('error', (error) =>
    options.logger.warn({ reason: error.message }, 'an idle database connection was lost'),
  );
  // The pool stops listening when it hands a connection out, and whoever asked for it goes on a moment later: a session whose
  // end comes in one packet with its beginning, or with an answer, has nobody else. Its next query fails.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/** pg knows a timeout a query, its types do not. */
const ROLLBACK: pg.QueryConfig & { query_timeout: number } = {
  text: 'ROLLBACK',
  query_timeout: ROLLBACK_TIMEOUT_MS,
};

const IDLE_TIMEOUT_MS = 30_000;

export interface TransactionOptions {
  /**
   * Milliseconds without a statement after which the server ends the transaction: one of a process that is frozen or cut off
   * would hold its locks for as long as that lasts. Default 30,000.
   */
  readonly idleTimeoutMs?: number;
  /** Milliseconds that a statement waits for a lock until the server refuses it (SQLSTATE 55P03). Default: as long as it takes. */
  readonly lockTimeoutMs?: number;
  /**
   * Milliseconds after which the server cancels a statement (SQLSTATE 57014); a shorter limit of the session stays. Default:
   * that of the session.
   */
  readonly statementTimeoutMs?: number;
}

/**
 * Runs `work` in one transaction on one connection. Whatever it throws rolls back; a connection on which the rollback
 * fails too is thrown away. An error of COMMIT itself leaves the outcome unknown: callers must bear a repetition.
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  options: TransactionOptions = {},
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A connection that dies while it is checked out emits 'error' besides failing its query.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    await client.query(beginOf(options));
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    try {
      await client.query(ROLLBACK);
    } catch (rollbackError) {
      broken ??= rollbackError as Error;
    }
    throw error;
  } finally {
    client.removeListener('error', onError);
    client.release(broken);
  }
}

/** In one round trip. */
function beginOf(options: TransactionOptions): string {
  const { idleTimeoutMs = IDLE_TIMEOUT_MS, lockTimeoutMs, statementTimeoutMs } = options;
  const settings = { idle_in_transaction_session_timeout: idleTimeoutMs, lock_timeout: lockTimeoutMs };
  return [
    'BEGIN',
    ...Object.entries(settings).flatMap(([name, ms]) =>
      ms === undefined ? [] : `SET LOCAL ${name} = ${Math.trunc(ms)}`,
    ),
    ...(statementTimeoutMs === undefined ? [] : [lowerStatementTimeout(Math.trunc(statementTimeoutMs))]),
  ].join('; ');
}

/** Zero is no limit. */
function lowerStatementTimeout(ms: number): string {
  return `SELECT set_config('statement_timeout', '${ms}', true)
    WHERE current_setting('statement_timeout')::interval NOT BETWEEN interval '1 ms' AND interval '${ms} ms'`;
}
