import { withDeadline } from '../async.ts';
import { AppError } from '../errors.ts';
import type { Pool, Statement } from './pool.ts';
import { poolsWithoutPreparing } from './prepared-statements.ts';
import { isPlanOutdated, isPreparedStatementLost } from './sqlstate.ts';

/**
 * AppError code (retryable) of a statement without an answer in time, or without a free connection.
 */
export const DATABASE_TIMEOUT = 'DATABASE_TIMEOUT';

/**
 * Maximum number of statements that wait for a connection; further ones are rejected immediately.
 */
const WAITING_MAX = 500;

/**
 * Runs one statement outside a transaction. Rejects after `deadlineMs`, including the wait for a
 * connection. This process enforces the deadline, so that it also applies if the server does not
 * answer. The connection of a statement that timed out is discarded. Only for reads and idempotent
 * writes, because the statement may still take effect.
 */
export function queryWithDeadline<Row>(
  pool: Pool,
  deadlineMs: number,
  text: string,
  values: unknown[],
): Promise<Row[]> {
  return run(pool, deadlineMs, { text, values });
}

/**
 * Runs a statement as {@link queryWithDeadline} does, prepared once per connection. For statements
 * that are planned for longer than they run. Poolers that cannot forward prepared statements get
 * them as all others.
 */
export async function queryPreparedWithDeadline<Row>(
  pool: Pool,
  deadlineMs: number,
  { name, text }: { readonly name: string; readonly text: string },
  values: unknown[],
): Promise<Row[]> {
  if (poolsWithoutPreparing.has(pool)) return run(pool, deadlineMs, { text, values });
  try {
    return await run(pool, deadlineMs, { name, text, values });
  } catch (error) {
    if (!isPreparedStatementLost(error) && !isPlanOutdated(error)) throw error;
    poolsWithoutPreparing.add(pool);
    return await run(pool, deadlineMs, { text, values });
  }
}

async function run<Row>(pool: Pool, deadlineMs: number, unlimited: Statement): Promise<Row[]> {
  if (pool.waitingCount >= WAITING_MAX) {
    throw new AppError(DATABASE_TIMEOUT, 'too many statements wait for a connection', { retryable: true });
  }
  const timedOut = () =>
    new AppError(DATABASE_TIMEOUT, `no answer within ${deadlineMs} ms`, { retryable: true });
  // The pool discards the connection after this timeout.
  const statement = { ...unlimited, query_timeout: deadlineMs };
  const { rows } = await withDeadline(pool.query<Row>(statement), deadlineMs, timedOut);
  return rows;
}
