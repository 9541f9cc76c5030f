import type { QueryConfig, QueryResultRow } from 'pg';
import { AppError } from '../errors.ts';
import type { Pool } from './pool.ts';

/** AppError code (retryable) of a statement that had no answer in time, or for which no connection was free. */
export const DATABASE_TIMEOUT = 'DATABASE_TIMEOUT';

/** Requests that may wait for a connection; past it the database is too slow for more to wait. */
const WAITING_MAX = 500;

/**
 * Runs one statement outside a transaction and gives up after `deadlineMs`, the wait for a connection included. The
 * deadline is kept here and not by the server, so that it also holds when the server does not answer at all; the
 * connection of a statement that was given up is thrown away. Only for reads, and for writes that do no harm a second
 * time or late: what happens to the statement is unknown.
 */
export async function queryWithin<Row extends QueryResultRow>(
  pool: Pool,
  deadlineMs: number,
  text: string,
  values: unknown[],
): Promise<Row[]> {
  if (pool.waitingCount >= WAITING_MAX) {
    throw new AppError(DATABASE_TIMEOUT, 'too many statements wait for a connection', { retryable: true });
  }
  // pg knows a timeout a query, its types do not: it rejects, and the pool then drops the connection.
  const config: QueryConfig & { query_timeout: number } = { text, values, query_timeout: deadlineMs };
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new AppError(DATABASE_TIMEOUT, `no answer within ${deadlineMs} ms`, { retryable: true }));
    }, deadlineMs);
  });
  try {
    const result = await Promise.race([pool.query<Row>(config), deadline]);
    return result.rows;
  } finally {
    clearTimeout(timer);
  }
}
