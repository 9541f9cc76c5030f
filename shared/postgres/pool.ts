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
 * A pool whose int8 values arrive as bigint. Statements read times as numbers, see epoch-ms.ts. A statement that writes
 * runs in a transaction of its own where it is not part of one, see {@link beginStatement}. A database that goes away
 * never ends the process.
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
  return withOwnTransactions(pool);
}

const WRITES = /^\s*(insert|update|delete|with)\b/i;

/** Two round trips more for each statement that writes alone; reads do not need them. */
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
  /** Milliseconds after which a begin or a commit without an answer is given up. Default: that of the pool. */
  readonly answerTimeoutMs?: number | undefined;
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
 * Begins a transaction, in one round trip, with the settings that its statements rely on: a database, a role or a pooler
 * may have set others for the session. Read-only defaults, statement_timeout and transaction_timeout stay the operator's.
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
  // Bulk statements send NULL inside arrays; with off it is a text.
  array_nulls: 'on',
  client_encoding: 'UTF8',
  // For text forms of times inside statements.
  datestyle: 'ISO',
};

/**
 * Makes the transaction's commit durable, also as a part of its only statement: a commit that was reported must survive a
 * crash. The kinds of synchronous commit that wait for standbys, or for none, stay.
 */
export const DURABLE = `SELECT set_config('synchronous_commit', 'on', true) AS mode WHERE current_setting('synchronous_commit') = 'off'`;

/** Zero is no limit. */
function lowerStatementTimeout(ms: number): string {
  return `SELECT set_config('statement_timeout', '${ms}', true)
    WHERE current_setting('statement_timeout')::interval NOT BETWEEN interval '1 ms' AND interval '${ms} ms'`;
}
