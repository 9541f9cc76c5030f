import pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';
import type { Logger } from '../logging.ts';
import { beginTexts, type TransactionOptions } from './begin-transaction.ts';
import { PipelinedTransaction } from './pipelined-transaction.ts';
import { withoutAnswer } from './pipelining.ts';
import { poolsWithoutPreparing } from './prepared-statements.ts';
import type { Queryable, Statement } from './queryable.ts';
import { isPlanOutdated, isPreparedStatementLost, isReadOnly, ofCitus } from './sqlstate.ts';

export type { TransactionOptions } from './begin-transaction.ts';
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
  /** Set by `findCitus`. A pool passes it on to its connections. */
  isCitus: boolean;
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
 * own transaction, see {@link beginTexts}. Losing the database never ends the process.
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
  const opened = Object.assign(pool, { closeConnections, isCitus: false });
  pool.on('acquire', (client) => {
    if (opened.isCitus) Object.assign(client, { isCitus: true });
  });
  return withOwnTransactions(opened as unknown as Pool);
}

const WRITES = /^\s*(insert|update|delete|with)\b/i;

/** Runs each statement that writes in a transaction of its own, at the cost of two round trips. */
function withOwnTransactions(pool: Pool): Pool {
  const queryAlone: Queryable['query'] = pool.query.bind(pool);
  const query: Queryable['query'] = async (statement, values) => {
    const config = typeof statement === 'string' ? { text: statement, ...(values && { values }) } : statement;
    if (!WRITES.test(config.text)) {
      const answer = queryAlone(statement, values);
      return await (pool.isCitus ? answer.catch((error) => Promise.reject(ofCitus(error))) : answer);
    }
    return await inTransaction(pool, (client) => client.query(config), {
      answerTimeoutMs: config.query_timeout,
    });
  };
  return Object.assign(pool, { query });
}

const ROLLBACK: Statement = { text: 'rollback', query_timeout: ROLLBACK_TIMEOUT_MS };

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
    for (const text of beginTexts(options, pool.isCitus)) {
      await withoutAnswer(transaction).query(timed(text, options));
    }
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
    throw pool.isCitus ? ofCitus(error) : error;
  } finally {
    client.removeListener('error', onError);
    client.release(broken);
  }
}

function timed(text: string, { answerTimeoutMs }: TransactionOptions): Statement {
  return { text, ...(answerTimeoutMs !== undefined && { query_timeout: answerTimeoutMs }) };
}
