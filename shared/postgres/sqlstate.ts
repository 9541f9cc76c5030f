import { AppError, errorCode, errorMessage, onOneLine } from '../errors.ts';

/** The SQLSTATEs that are handled in the code, by their names in Postgres' manual (appendix A). */
export const SQLSTATE = {
  PROTOCOL_VIOLATION: '08P01',
  FEATURE_NOT_SUPPORTED: '0A000',
  UNIQUE_VIOLATION: '23505',
  SERIALIZATION_FAILURE: '40001',
  /** Also reported if a partitioned table has no partition for the row. */
  CHECK_VIOLATION: '23514',
  READ_ONLY_SQL_TRANSACTION: '25006',
  IDLE_IN_TRANSACTION_SESSION_TIMEOUT: '25P03',
  TRANSACTION_TIMEOUT: '25P04',
  INVALID_SQL_STATEMENT_NAME: '26000',
  INVALID_AUTHORIZATION_SPECIFICATION: '28000',
  INVALID_PASSWORD: '28P01',
  DEPENDENT_OBJECTS_STILL_EXIST: '2BP01',
  INVALID_CATALOG_NAME: '3D000',
  INSUFFICIENT_PRIVILEGE: '42501',
  UNDEFINED_TABLE: '42P01',
  DUPLICATE_OBJECT: '42710',
  DUPLICATE_DATABASE: '42P04',
  DUPLICATE_PREPARED_STATEMENT: '42P05',
  DISK_FULL: '53100',
  OUT_OF_MEMORY: '53200',
  TOO_MANY_CONNECTIONS: '53300',
  LOCK_NOT_AVAILABLE: '55P03',
  QUERY_CANCELED: '57014',
  ADMIN_SHUTDOWN: '57P01',
  CRASH_SHUTDOWN: '57P02',
  CANNOT_CONNECT_NOW: '57P03',
  RAISE_EXCEPTION: 'P0001',
  INTERNAL_ERROR: 'XX000',
} as const;

/**
 * Classes of errors with which a server refuses a session: role or password, database. A password
 * may be rotated, and a database restored, while a process runs.
 */
const REFUSED_CLASSES: readonly string[] = ['28', '3D'];

/**
 * Classes of errors that depend on the server's state, so that a retry may succeed: connection,
 * transaction state (such as read-only after a failover), transaction rollback, resources, object in
 * use, operator intervention, system; and refused sessions.
 */
const TRANSIENT_CLASSES: ReadonlySet<string> = new Set([
  '08',
  '25',
  '40',
  '53',
  '55',
  '57',
  '58',
  ...REFUSED_CLASSES,
]);

/** Codes of sessions that a server ends or refuses because it starts, stops or recovers. */
const SHUTDOWN_CODES: ReadonlySet<string> = new Set([
  SQLSTATE.ADMIN_SHUTDOWN,
  SQLSTATE.CRASH_SHUTDOWN,
  SQLSTATE.CANNOT_CONNECT_NOW,
]);

/**
 * Returns whether the server itself reported the error: only the server's errors have a severity.
 */
export function isServerError(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'severity' in error;
}

/** Returns whether the server, or a pooler, ended the session with the error. */
export function isFatal(error: unknown): boolean {
  return isServerError(error) && (error as { severity: unknown }).severity === 'FATAL';
}

/**
 * Returns the SQLSTATE of an error that the server reported. Errors of sockets and of this code
 * have other codes.
 */
export function sqlStateOf(error: unknown): string | undefined {
  const code = isServerError(error) ? errorCode(error) : undefined;
  return code && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Returns the SQLSTATE's class, which is its first two characters. */
export const sqlStateClass = (sqlState: string): string => sqlState.slice(0, 2);

export const isTransient = (sqlState: string): boolean => TRANSIENT_CLASSES.has(sqlStateClass(sqlState));

/** Returns whether the SQLSTATE means that a connection failed, or that its server starts or stops. */
export function isDisconnected(sqlState: string): boolean {
  if (sqlState === SQLSTATE.PROTOCOL_VIOLATION) return false;
  return sqlStateClass(sqlState) === '08' || SHUTDOWN_CODES.has(sqlState);
}

/** Returns whether a write failed because the server, or the session, only reads. */
export function isReadOnly(error: unknown): error is Error {
  return sqlStateOf(error) === SQLSTATE.READ_ONLY_SQL_TRANSACTION;
}

/** Returns whether the server refuses sessions of this role or on this database. */
export function isSessionRefused(error: unknown): boolean {
  return REFUSED_CLASSES.includes(sqlStateClass(sqlStateOf(error) ?? ''));
}

/**
 * Returns whether a failed statement may succeed later: the server is down, busy or unreachable.
 * Returns false for defects.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (error instanceof AppError) return error.retryable;
  if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) {
    return false;
  }
  return !isServerError(error) || isTransient(sqlStateOf(error) ?? '');
}

/**
 * Returns whether a prepared statement does not exist in the session, or its name is taken: a pooler
 * uses another session than before.
 */
export function isPreparedStatementLost(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  return (
    sqlState === SQLSTATE.INVALID_SQL_STATEMENT_NAME || sqlState === SQLSTATE.DUPLICATE_PREPARED_STATEMENT
  );
}

/** Returns whether a prepared statement may return other types than when it was prepared. */
export function isPlanOutdated(error: unknown): boolean {
  return sqlStateOf(error) === SQLSTATE.FEATURE_NOT_SUPPORTED;
}

/** AppError code (retryable) of a Citus cluster that cannot run a statement now. */
export const CITUS_UNAVAILABLE = 'CITUS_UNAVAILABLE';

/** AppError code (retryable) of a statement that needs a node of a Citus cluster that is down. */
export const CITUS_NODE_DOWN = 'CITUS_NODE_DOWN';

/**
 * Returns the error of a statement on Citus. The coordinator reports a node that it cannot reach with
 * the codes of a lost connection, though its own connection to this process is open. It reports a
 * shard that is being moved, and some failures of nodes, as internal errors, which are defects on any
 * other server.
 */
export function ofCitus(error: unknown): unknown {
  const sqlState = sqlStateOf(error);
  if (sqlState === undefined) return error;
  if (isDisconnected(sqlState) && !isFatal(error)) {
    return new AppError(
      CITUS_NODE_DOWN,
      `a node of the Citus cluster does not answer (SQLSTATE ${sqlState}): run \`./sluice doctor\`, which names it`,
      { retryable: true, cause: error },
    );
  }
  if (sqlState !== SQLSTATE.INTERNAL_ERROR) return error;
  return new AppError(
    CITUS_UNAVAILABLE,
    `a node of the Citus cluster failed, or a shard is being moved (SQLSTATE ${sqlState}): ${onOneLine(errorMessage(error))}`,
    { retryable: true, cause: error },
  );
}
