import pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';
import type { Logger } from '../logging.ts';

/** The pool, or one connection inside a transaction. */
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
   * Milliseconds without an answer after which a statement fails and its connection is discarded: a
   * server or a network that went silent reports no error. Default: no limit.
   */
  readonly answerTimeoutMs?: number;
}

/** A connection that does not answer a rollback in this time is discarded. */
const ROLLBACK_TIMEOUT_MS = 5000;

/**
 * Creates a pool whose int8 values arrive as bigint. Statements read times as numbers, see
 * epoch-ms.ts. A statement that writes outside a transaction gets one of its own, see {@link
 * beginStatement}. A database that goes down never ends the process.
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
    // Certificates are read once, here: a file that is removed later must not end the process.
    ...parseIntoClientConfig(options.connectionString),
  });
  // Without a handler, the end of an idle connection would end the process.
  pool.on('error', (error) =>
    options.logger.warn({ reason: error.message }, 'idle database connection lost'),
  );
  // The pool stops listening before a caller of `connect` can: without this handler, a connection
  // that is lost in between would end the process. Its next query fails.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return withOwnTransactions(pool);
}

const WRITES = /^\s*(insert|update|delete|with)\b/i;

/** Runs each statement that writes in a transaction of its own, at the cost of two round trips. */
function withOwnTransactions(pool: Pool): Pool {
  type Query = pg.QueryConfig & { readonly query_timeout?: number };
  const queryAlone = pool.query.bind(pool) as Queryable['query'];
  const query = async (statement: string | Query, values?: unknown[]) => {
    const config: Query =
      typeof statement === 'string' ? { text: statement, ...(values && { values }) } : statement;
    if (!WRITES.test(config.text)) return await queryAlone(statement as string, values);
    return await inTransaction(pool, (client) => client.query(config), {
      answerTimeoutMs: config.query_timeout,
    });
  };
  return Object.assign(pool, { query });
}

/** pg has a timeout per query that its types lack. */
const ROLLBACK: pg.QueryConfig & { query_timeout: number } = {
  text: 'ROLLBACK',
  query_timeout: ROLLBACK_TIMEOUT_MS,
};

const IDLE_TIMEOUT_MS = 30_000;

export interface TransactionOptions {
  /**
   * Milliseconds without a statement after which the server ends the transaction, so that a process
   * that is frozen or disconnected does not hold its locks. Default 30,000.
   */
  readonly idleTimeoutMs?: number;
  /**
   * Milliseconds after which a statement that waits for a lock fails (SQLSTATE 55P03). Default: no
   * limit.
   */
  readonly lockTimeoutMs?: number;
  /**
   * Milliseconds after which the server cancels a statement (SQLSTATE 57014). A shorter limit of
   * the session applies. Default: the session's limit.
   */
  readonly statementTimeoutMs?: number;
  /**
   * Milliseconds after which a BEGIN or COMMIT without an answer fails. Default: the pool's limit.
   */
  readonly answerTimeoutMs?: number | undefined;
}

/**
 * Runs `work` in one transaction on one connection, and rolls back when it throws. A connection on
 * which the rollback fails too is discarded. After an error of COMMIT itself the outcome is
 * unknown: `work` must be idempotent.
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  options: TransactionOptions = {},
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A connection that dies while it is checked out emits 'error' in addition to failing its query.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    await client.query(timed(beginStatement(options), options));
    const result = await work(client);
    await client.query(timed('COMMIT', options));
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

function timed(text: string, { answerTimeoutMs }: TransactionOptions): pg.QueryConfig {
  const config: pg.QueryConfig & { query_timeout?: number } = {
    text,
    ...(answerTimeoutMs !== undefined && { query_timeout: answerTimeoutMs }),
  };
  return config;
}

/**
 * Begins a transaction, in one round trip, with the settings that its statements rely on: a
 * database, a role or a pooler may have set others for the session. Read-only defaults,
 * statement_timeout and transaction_timeout stay the operator's.
 */
export function beginStatement(options: TransactionOptions = {}): string {
  const { idleTimeoutMs = IDLE_TIMEOUT_MS, lockTimeoutMs = 0, statementTimeoutMs } = options;
  return [
    'BEGIN ISOLATION LEVEL READ COMMITTED',
    ...Object.entries({
      idle_in_transaction_session_timeout: Math.trunc(idleTimeoutMs),
      lock_timeout: Math.trunc(lockTimeoutMs),
      ...STATEMENT_SETTINGS,
    }).map(([name, value]) => `SET LOCAL ${name} = ${value}`),
    DURABLE,
    ...(statementTimeoutMs === undefined ? [] : [lowerStatementTimeout(Math.trunc(statementTimeoutMs))]),
  ].join('; ');
}

const STATEMENT_SETTINGS = {
  // Bulk statements send NULL inside arrays; with `off` it would be a text.
  array_nulls: 'on',
  client_encoding: 'UTF8',
  // For text forms of times inside statements.
  datestyle: 'ISO',
};

/**
 * Makes the transaction's commit durable, also as a part of its only statement: a reported commit
 * must survive a crash. Other settings of synchronous_commit, which wait for standbys or for none,
 * stay.
 */
export const DURABLE = `SELECT set_config('synchronous_commit', 'on', true) AS mode WHERE current_setting('synchronous_commit') = 'off'`;

/** Lowers the session's statement_timeout, of which 0 means no limit. */
function lowerStatementTimeout(ms: number): string {
  return `SELECT set_config('statement_timeout', '${ms}', true)
    WHERE current_setting('statement_timeout')::interval NOT BETWEEN interval '1 ms' AND interval '${ms} ms'`;
}
