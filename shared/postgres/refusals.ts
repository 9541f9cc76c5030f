import { AppError, errorCode, errorMessage } from '../errors.ts';
import { type TlsFault, tlsFault } from '../tls-faults.ts';
import {
  CITUS_NODE_DOWN,
  CITUS_UNAVAILABLE,
  isDisconnected,
  isFatal,
  isServerError,
  SQLSTATE,
  sqlStateOf,
} from './sqlstate.ts';

/**
 * Code of the AppError (not retryable) of a database that refuses the connection, its role or
 * password, or does not exist.
 */
export const DATABASE_REFUSED = 'DATABASE_REFUSED';

/** Code of the AppError (retryable) of a database that only reads. */
export const DATABASE_READ_ONLY = 'DATABASE_READ_ONLY';
export const READ_ONLY_ADVICE =
  'wait for the end of its failover, let DATABASE_URL name the primary, or set default_transaction_read_only to off';

export const READ_ONLY = `the database is read-only: ${READ_ONLY_ADVICE}`;

/** The driver's error message, which has no code, if the server does not support TLS. */
const WITHOUT_TLS = 'The server does not support SSL connections';

/**
 * Returns a sentence that explains why a connection or a statement was refused, by the database or by
 * this process, and names the setting or the grant. Returns undefined for other errors. Never
 * contains the address or the password.
 */
export function databaseRefusal(error: unknown): string | undefined {
  const code = errorCode(error);
  switch (code) {
    case SQLSTATE.INVALID_PASSWORD:
      return 'the database refuses the user or the password of DATABASE_URL';
    case SQLSTATE.INVALID_AUTHORIZATION_SPECIFICATION:
      return 'the database refuses this user from this host (pg_hba.conf): check the user in DATABASE_URL, and whether the database requires sslmode=verify-full';
    case SQLSTATE.INVALID_CATALOG_NAME:
      return 'the database that DATABASE_URL names does not exist on its server: create it, or set another one';
    case SQLSTATE.PROTOCOL_VIOLATION:
      // pgbouncer reports all its refusals so.
      return isFatal(error)
        ? `the server of DATABASE_URL, or its pooler, refuses the session: ${errorMessage(error)}`
        : undefined;
    case SQLSTATE.READ_ONLY_SQL_TRANSACTION:
    case DATABASE_READ_ONLY:
      return READ_ONLY;
    case SQLSTATE.INSUFFICIENT_PRIVILEGE:
      return `the role of DATABASE_URL lacks a right (${errorMessage(error)}): use the role that ran \`./sluice migrate\` for every part, or grant this role the same rights`;
  }
  const fault = tlsFault(code);
  if (fault) return tlsRefusal(fault);
  if (error instanceof Error && error.constructor === Error && errorMessage(error) === WITHOUT_TLS) {
    return 'the server of DATABASE_URL has no TLS: turn it on there, or remove DATABASE_TLS_CA and sslmode';
  }
  return undefined;
}

/**
 * Returns a sentence that explains why the database is unavailable, and what to check. Never contains
 * the address.
 */
export function databaseTrouble(error: unknown): string {
  const refusal = databaseRefusal(error);
  if (refusal !== undefined) return refusal;
  const code = errorCode(error);
  if (code === SQLSTATE.UNDEFINED_TABLE) {
    return 'the database of DATABASE_URL has no tables of Sluice yet: run `./sluice migrate`';
  }
  if (code === CITUS_NODE_DOWN || code === CITUS_UNAVAILABLE) return errorMessage(error);
  if (code === SQLSTATE.TOO_MANY_CONNECTIONS) {
    return `the database has no connection left (SQLSTATE ${code}): raise its max_connections, or lower SLUICE_DATABASE_CONNECTIONS`;
  }
  if (code === SQLSTATE.DISK_FULL) {
    return `the disk of the database is full (SQLSTATE ${code}): enlarge it, or free space`;
  }
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined && isDisconnected(sqlState)) return disconnection(sqlState);
  if (isServerError(error)) return `the database rejects the statement (SQLSTATE ${code})`;
  // The driver's own errors have no code.
  return noAnswer((!(error instanceof AppError) && code) || errorMessage(error) || 'no connection');
}

function disconnection(sqlState: string): string {
  switch (sqlState) {
    case SQLSTATE.CANNOT_CONNECT_NOW:
      return `the database is starting or stopping (SQLSTATE ${sqlState}): if that lasts, look at its log`;
    case SQLSTATE.ADMIN_SHUTDOWN:
    case SQLSTATE.CRASH_SHUTDOWN:
      return `the database ended the session, as when it stops (SQLSTATE ${sqlState}): check that it runs`;
    default:
      return noAnswer(`SQLSTATE ${sqlState}`);
  }
}

function noAnswer(reason: string): string {
  return `the database does not answer (${reason}): check that it runs, and its host and port in DATABASE_URL`;
}

function tlsRefusal(fault: TlsFault): string {
  switch (fault) {
    case 'untrusted':
      return "the database's certificate was not issued by a trusted authority: set DATABASE_TLS_CA to the file with its authority's certificate";
    case 'expired':
      return "the database's certificate is not valid at this time: renew it, or set the clock";
    case 'other-name':
      return "the database's certificate is for another name than the host in DATABASE_URL: use the certificate's name there";
    case 'certificate-wanted':
      return 'the database requires a client certificate that it trusts: set sslcert and sslkey in DATABASE_URL';
    case 'no-tls':
      return 'the TLS handshake with the server of DATABASE_URL failed';
  }
}
