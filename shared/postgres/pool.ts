import pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';
import type { Logger } from '../logging.ts';
import { PipelinedTransaction } from './pipelined-transaction.ts';
import { withoutAnswer } from './pipelining.ts';
import { poolsWithoutPreparing } from './prepared-statements.ts';
import type { Queryable, Statement } from './queryable.ts';
import { isPlanOutdated, isPreparedStatementLost, isReadOnly } from './sqlstate.ts';

export type { Queryable, QueryResult, Statement } from './queryable.ts';

/** A pool of connections to one database. */
export interface Pool extends Queryable {
  /**
   * Checks out a connection, which the caller must release. Rejects if no connection is free in
   * time.
   */
  connect(): Promise<Connection>;
  /** Closes all connections, and resolves when the last one has been released. */
  end(): Promise<void>;
  /**
   * Closes all connections, those that are in use once they are released: after a failover they are
   * still those of a server that only reads. Connections emit `error`. Does nothing if `failed` was
   * closed this way before, because newer connections may be those of another server.
   */
  closeConnections(reason: Error, failed?: Connection): void;
  /** Calls `listener` with each new connection. */
  on(event: 'connect', listener: (client: Connection) => void): unknown;
  /** Number of open connections, and of those that no caller uses. */
  readonly totalCount: number;
  readonly idleCount: number;
  /** Number of callers that wait for a connection. */
  readonly waitingCount: number;
  readonly options: Pick<PoolOptions, 'max'>;
}

/** A connection that is checked out of a pool. */
export interface Connection extends Queryable, ConnectionEvents {
  /** Process id of the server's backend; null before it is known. */
  readonly processID: number | null;
  /** Returns the connection to the pool, or closes it if an error or `true` is given. */
  release(discard?: Error | boolean): void;
}

/** Events of a connection. Without a listener for errors, a lost connection ends the process. */
export interface ConnectionEvents {
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: { readonly payload?: string }) => void): unknown;
  once(event: 'end', listener: () => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'notification', listener: (message: { readonly payload?: string }) => void): unknown;
  removeAllListeners(event: 'notification'): unknown;
}

export interface PoolOptions {
  readonly connectionString: string;
  /** Maximum number of connections. */
  readonly max: number;
  /** The name that pg_stat_activity shows. */
  readonly applicationName: string;
  readonly logger: Logger;
  /** Milliseconds to wait for a connection. Default 5000. */
  readonly connectionTimeoutMs?: number;
  /**
   * Milliseconds without an answer after which a statement fails and its connection is discarded: a
   * server or network that stops responding reports no error. Default: no limit.
   */
  readonly answerTimeoutMs?: number;
  /**
   * Whether connections send statements before the previous ones are answered, and may prepare them.
   * Not for a pooler that does not support both. Default false.
   */
  readonly pipeline?: boolean;
}

/** Milliseconds after which a connection that does not answer a rollback is discarded. */
const ROLLBACK_TIMEOUT_MS = 5000;

/**
 * Returns the type parsers of results. int8 becomes a bigint. numeric becomes a number, because
 * statements return it only for times: see epochMs in times.ts.
 */
export function resultTypes(): pg.CustomTypesConfig {
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, (text) => BigInt(text));
  types.setTypeParser(pg.types.builtins.NUMERIC, Number);
  return types;
}

/**
 * Creates a pool with {@link resultTypes}. A statement that writes outside a transaction gets its
 * own transaction, see {@link beginStatement}. Losing the database never ends the process.
 */
export function createPool(options: PoolOptions): Pool {
  const pool = new pg.Pool({
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectionTimeoutMs ?? 5000,
    types: resultTypes(),
    pipeline: options.pipeline ?? false,
    ...(options.answerTimeoutMs !== undefined && { query_timeout: options.answerTimeoutMs }),
    // Reads certificates once, here: removing a file later must not end the process.
    ...parseIntoClientConfig(options.connectionString),
  });
  // Without a handler, the end of an idle connection would end the process.
  pool.on('error', (error) =>
    options.logger.warn({ reason: error.message }, 'idle database connection lost'),
  );
  // The pool removes its own error handler before a caller of `connect` can add one. Without this
  // handler, a connection that is lost in between would end the process. The connection's next
  // query fails.
  const open = new Set<unknown>();
  pool.on('connect', (client) => {
    open.add(client);
    client.on('error', () => undefined);
  });
  pool.on('remove', (client) => open.delete(client));
  const closeConnections: Pool['closeConnections'] = ({ message, ...reason }, failed) => {
    if (failed && !open.has(failed)) return;
    const clients = [...open] as pg.PoolClient[];
    open.clear();
    // As if each connection was lost. The pool adds a member to the error of an idle connection.
    for (const client of clients) client.emit('error', Object.assign(new Error(message), reason));
  };
  return withOwnTransactions(Object.assign(pool, { closeConnections }) as unknown as Pool);
}

const WRITES = /^\s*(insert|update|delete|with)\b/i;

/** Runs each statement that writes in a transaction of its own, at the cost of two round trips. */
function withOwnTransactions(pool: Pool): Pool {
  const queryAlone: Queryable['query'] = pool.query.bind(pool);
  const query: Queryable['query'] = async (statement, values) => {
    const config = typeof statement === 'string' ? { text: statement, ...(values && { values }) } : statement;
    if (!WRITES.test(config.text)) return await queryAlone(statement, values);
    return await inTransaction(pool, (client) => client.query(config), {
      answerTimeoutMs: config.query_timeout,
    });
  };
  return Object.assign(pool, { query });
}

const ROLLBACK: Statement = { text: 'rollback', query_timeout: ROLLBACK_TIMEOUT_MS };

const IDLE_TIMEOUT_MS = 30_000;

export interface TransactionOptions {
  /**
   * Milliseconds without a statement after which the server ends the transaction, so that a frozen
   * or disconnected process does not hold locks. Default 30,000.
   */
  readonly idleTimeoutMs?: number;
  /**
   * Milliseconds after which a statement that waits for a lock fails (SQLSTATE 55P03). Default: no
   * limit.
   */
  readonly lockTimeoutMs?: number;
  /**
   * Milliseconds after which the server cancels a statement (SQLSTATE 57014). A shorter timeout of
   * the session still applies. Default: the session's limit.
   */
  readonly statementTimeoutMs?: number;
  /**
   * Milliseconds after which a BEGIN or COMMIT without an answer fails. Default: the pool's limit.
   */
  readonly answerTimeoutMs?: number | undefined;
  /**
   * Whether the planner should use indexes even where it estimates that reading a whole table is
   * cheaper. For statements on few rows of a queue, most of whose rows may be dead.
   */
  readonly preferIndexes?: boolean;
  /**
   * Whether to send statements without waiting where nobody needs the answer, BEGIN among them, if
   * the pool permits it; see {@link PipelinedTransaction}. The first statement must only read and
   * lock, in case that BEGIN fails.
   */
  readonly pipelined?: boolean;
  /**
   * Whether a pipelined transaction prepares its statements, unless a pooler has lost some. Default
   * false.
   */
  readonly prepare?: boolean;
  /**
   * Whether all statements see the same snapshot. A statement that changes a row which has changed
   * since then fails with SQLSTATE 40001.
   */
  readonly snapshot?: boolean;
  /**
   * Whether each sort and hash table may use 64 MB of memory. For statements that read many rows and
   * return few.
   */
  readonly largeSorts?: boolean;
}

/**
 * Runs `work` in one transaction on one connection, and rolls back if `work` throws. Discards the
 * connection if the rollback fails too. After an error of COMMIT itself the outcome is unknown, so
 * `work` must be idempotent.
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: Queryable) => Promise<T>,
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
    const prepare = options.prepare === true && !poolsWithoutPreparing.has(pool);
    const transaction =
      options.pipelined && client.pipeline ? new PipelinedTransaction(client, { prepare }) : client;
    await withoutAnswer(transaction).query(timed(beginStatement(options), options));
    const result = await work(transaction);
    await transaction.query(timed('commit', options));
    return result;
  } catch (error) {
    if (isReadOnly(error)) pool.closeConnections(error, client);
    if (isPreparedStatementLost(error)) poolsWithoutPreparing.add(pool);
    if (isPreparedStatementLost(error) || isPlanOutdated(error)) broken = error as Error;
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

function timed(text: string, { answerTimeoutMs }: TransactionOptions): Statement {
  return { text, ...(answerTimeoutMs !== undefined && { query_timeout: answerTimeoutMs }) };
}

/**
 * Returns the statement that begins a transaction, in one round trip, with the settings on which
 * its statements rely. A database, a role or a pooler may have changed these settings for the
 * session. Read-only defaults, statement_timeout and transaction_timeout are left to the operator.
 */
function beginStatement(options: TransactionOptions = {}): string {
  const { idleTimeoutMs = IDLE_TIMEOUT_MS, lockTimeoutMs = 0, statementTimeoutMs } = options;
  return [
    options.snapshot ? 'begin isolation level repeatable read' : 'begin isolation level read committed',
    ...Object.entries({
      idle_in_transaction_session_timeout: Math.trunc(idleTimeoutMs),
      lock_timeout: Math.trunc(lockTimeoutMs),
      ...STATEMENT_SETTINGS,
    }).map(([name, value]) => `set local ${name} = ${value}`),
    DURABLE,
    ...(options.largeSorts ? ["set local work_mem = '64MB'"] : []),
    ...(options.preferIndexes ? ['set local enable_seqscan = off'] : []),
    ...(statementTimeoutMs === undefined ? [] : [lowerStatementTimeout(Math.trunc(statementTimeoutMs))]),
  ].join('; ');
}

const STATEMENT_SETTINGS = {
  // Bulk statements send NULL inside arrays, which with `off` would be read as text.
  array_nulls: 'on',
  client_encoding: 'UTF8',
  // Fixes the text form of times inside statements.
  datestyle: 'ISO',
};

/**
 * Makes the commit of the transaction durable: a reported commit must survive a crash. Can be part
 * of the transaction's only statement. Changes only synchronous_commit = off; all other values
 * stay.
 */
export const DURABLE = `select set_config('synchronous_commit', 'on', true) as mode where current_setting('synchronous_commit') = 'off'`;

/** Returns SQL that lowers the session's statement_timeout, where 0 means no limit. */
function lowerStatementTimeout(ms: number): string {
  return `select set_config('statement_timeout', '${ms}', true)
    where current_setting('statement_timeout')::interval not between interval '1 ms' and interval '${ms} ms'`;
}
