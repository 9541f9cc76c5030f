import { withDeadline } from '../async.ts';
import { AppError } from '../errors.ts';
import type { Pool } from './pool.ts';

/**
 * AppError code (retryable) of a statement that had no answer in time, or for which no connection
 * was free.
 */
export const DATABASE_TIMEOUT = 'DATABASE_TIMEOUT';

/** Statements that may wait for a connection; the next ones are rejected immediately. */
const WAITING_MAX = 500;

/**
 * Runs one statement outside a transaction. Rejects after `deadlineMs`, the wait for a connection
 * included. The deadline is kept here and not by the server, so that it also holds when the server
 * does not answer at all. The connection of a statement that timed out is discarded. Only for reads
 * and idempotent writes: the statement may still take effect.
 */
export async function queryWithDeadline<Row>(
  pool: Pool,
  deadlineMs: number,
  text: string,
  values: unknown[],
): Promise<Row[]> {
  if (pool.waitingCount >= WAITING_MAX) {
    throw new AppError(DATABASE_TIMEOUT, 'too many statements wait for a connection', { retryable: true });
  }
  const timedOut = () =>
    new AppError(DATABASE_TIMEOUT, `no answer within ${deadlineMs} ms`, { retryable: true });
  // After its own timeout the pool discards the connection.
  const statement = { text, values, query_timeout: deadlineMs };
  const { rows } = await withDeadline(pool.query<Row>(statement), deadlineMs, timedOut);
  return rows;
}
