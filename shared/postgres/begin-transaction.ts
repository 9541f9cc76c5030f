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
   * the pool permits it; see `PipelinedTransaction`. The first statement must only read and
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

const IDLE_TIMEOUT_MS = 30_000;

/**
 * Returns what begins a transaction, with the settings on which its statements rely. A database, a
 * role or a pooler may have changed these settings for the session. Read-only defaults,
 * statement_timeout and transaction_timeout are left to the operator. One text is one round trip:
 * there are several on Citus, which sends the whole text of each setting to its workers.
 */
export function beginTexts(options: TransactionOptions, isCitus: boolean): string[] {
  const { idleTimeoutMs = IDLE_TIMEOUT_MS, lockTimeoutMs = 0, statementTimeoutMs } = options;
  const begin = [
    options.snapshot ? 'begin isolation level repeatable read' : 'begin isolation level read committed',
    ...Object.entries({
      idle_in_transaction_session_timeout: Math.trunc(idleTimeoutMs),
      lock_timeout: Math.trunc(lockTimeoutMs),
      ...STATEMENT_SETTINGS,
    }).map(([name, value]) => `set local ${name} = ${value}`),
    DURABLE,
    ...(statementTimeoutMs === undefined ? [] : [lowerStatementTimeout(Math.trunc(statementTimeoutMs))]),
  ];
  const onShards = [
    ...(options.largeSorts ? ["set local work_mem = '64MB'"] : []),
    ...(options.preferIndexes ? ['set local enable_seqscan = off'] : []),
  ];
  if (!isCitus) return [[...begin, ...onShards].join('; ')];
  if (lockTimeoutMs > 0) onShards.push(`set local lock_timeout = ${Math.trunc(lockTimeoutMs)}`);
  return [[...begin, PROPAGATE_SETTINGS].join('; '), ...onShards];
}

/** Makes Citus send the settings that follow to its workers, where rows are locked and sorted. */
const PROPAGATE_SETTINGS = "set local citus.propagate_set_commands = 'local'";

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
