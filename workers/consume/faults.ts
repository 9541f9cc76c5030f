import { AppError, BATCH_BOUND_EXCEEDED, errorCode } from '../../shared/errors.ts';
import { POSITION_LOST } from '../../shared/log/log.ts';
import { databaseRefusal, databaseTrouble } from '../../shared/postgres/refusals.ts';
import {
  CITUS_NODE_DOWN,
  CITUS_UNAVAILABLE,
  isTransient,
  SQLSTATE,
  sqlStateClass,
  sqlStateOf,
} from '../../shared/postgres/sqlstate.ts';

/**
 * The reason why a batch failed, classified by the required reaction:
 * - `record`: one of the records can never be stored: bisect.
 * - `bound`: the records together exceed a limit of Sluice: store fewer.
 * - `no-partition`: a table has no partition for one of the times: create it.
 * - `wait`: a service is down or busy: retry for as long as that lasts.
 * - `stop`: the partition is not read from its position, or the log was replaced: find the start
 *   again. After a replacement of the log, only an operator can make that succeed.
 * - `unexpected`: any other error: retry, and report not ready meanwhile.
 */
export interface Fault {
  readonly kind: 'record' | 'bound' | 'no-partition' | 'wait' | 'stop' | 'unexpected';
  /** Text for operators, without values of records. */
  readonly text: string;
  /** The table that lacks a partition; undefined if the server does not name it, as with Citus. */
  readonly table?: string;
  /**
   * Set if the batch may be the cause, because of its size or one of its records. `time`: its
   * transaction took too long. `records`: the server or our own code failed during the batch.
   */
  readonly suspected?: 'time' | 'records';
  /**
   * Set if a node of a Citus cluster is down. Records of other nodes are stored meanwhile, so their
   * success does not mean that these records are the cause.
   */
  readonly nodeDown?: true;
}

/**
 * SQLSTATE classes that a value of a record can cause: cardinality, data, constraint, program
 * limit.
 */
const RECORD_CLASSES = new Set(['21', '22', '23', '54']);
/**
 * The transaction, or one of its statements, exceeded a timeout of the server, which also ends a
 * transaction that its client left idle, such as a frozen process.
 */
const TIME_CODES: ReadonlySet<string> = new Set([
  SQLSTATE.IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
  SQLSTATE.TRANSACTION_TIMEOUT,
  SQLSTATE.QUERY_CANCELED,
]);
/**
 * The session or the server ended, or failed internally, which a large batch or one record can
 * cause. Excludes contention, a full disk, and refusals that affect every batch.
 */
const SUSPICIOUS_CLASSES = new Set(['08', '57', '58', 'XX']);

const CONDITIONS: Readonly<Record<string, string>> = {
  '21000': 'the same row twice in one statement',
  '22001': 'a string that is too long',
  '22003': 'a number out of range',
  '22007': 'a malformed time',
  '22008': 'a time out of range',
  '22021': 'a character that cannot be stored',
  '22P02': 'a malformed value',
  '22P05': 'a character that cannot be stored',
  '23502': 'a value that is missing',
  '23505': 'a key that already exists',
  '23514': 'a value that breaks a rule of the table',
  '54000': 'a row that is too large',
};

/** Conditions that operators can fix. */
const WAIT_CONDITIONS: Readonly<Record<string, string>> = {
  [SQLSTATE.DISK_FULL]: 'its disk is full',
  [SQLSTATE.TOO_MANY_CONNECTIONS]: 'it has no connection left',
  [SQLSTATE.LOCK_NOT_AVAILABLE]: 'another session holds a lock that it needs',
};

/** Classifies an error of storing a batch by SQLSTATE, code and type, but never by its message. */
export function classifyFault(error: unknown): Fault {
  const refusal = databaseRefusal(error);
  if (refusal) return { kind: 'unexpected', text: refusal };
  const sqlState = sqlStateOf(error);
  if (sqlState) return classifySqlState(error as PostgresError, sqlState);
  if (error instanceof AppError) {
    if (error.code === POSITION_LOST) return { kind: 'stop', text: error.message };
    if (error.code === BATCH_BOUND_EXCEEDED) return { kind: 'bound', text: error.message };
    if (error.code === CITUS_UNAVAILABLE) return { kind: 'wait', text: error.message, suspected: 'records' };
    if (error.code === CITUS_NODE_DOWN) {
      return { kind: 'wait', text: error.message, suspected: 'records', nodeDown: true };
    }
    if (error.retryable) return { kind: 'wait', text: error.message };
    return { kind: 'unexpected', text: error.message, suspected: 'records' };
  }
  if (errorCode(error)) return { kind: 'wait', text: databaseTrouble(error), suspected: 'records' };
  // The driver reports lost and refused connections as plain errors without a code; bugs cause
  // TypeErrors and similar errors.
  if (error instanceof Error && error.constructor === Error) {
    return { kind: 'wait', text: databaseTrouble(error), suspected: 'records' };
  }
  return {
    kind: 'unexpected',
    text: `a fault of the worker (${error instanceof Error ? error.name : typeof error})`,
    suspected: 'records',
  };
}

/** Why a batch failed, in classes that operators act on. */
export const FAILURE_REASONS = [
  'record',
  'bound',
  'no-partition',
  'disk-full',
  'connections',
  'lock',
  'timeout',
  'refused',
  'unavailable',
  'position',
  'unexpected',
] as const;

export type FailureReason = (typeof FAILURE_REASONS)[number];

const REASONS: Readonly<Record<string, FailureReason>> = {
  '40001': 'lock',
  '40P01': 'lock',
  [SQLSTATE.DISK_FULL]: 'disk-full',
  [SQLSTATE.TOO_MANY_CONNECTIONS]: 'connections',
  [SQLSTATE.LOCK_NOT_AVAILABLE]: 'lock',
};

/** Returns the class of an error of storing a batch. */
export function failureReason(error: unknown): FailureReason {
  if (databaseRefusal(error)) return 'refused';
  const reason = REASONS[sqlStateOf(error) ?? ''];
  if (reason) return reason;
  const { kind, suspected } = classifyFault(error);
  if (suspected === 'time') return 'timeout';
  if (kind === 'wait') return 'unavailable';
  return kind === 'stop' ? 'position' : kind;
}

interface PostgresError extends Error {
  readonly table?: string;
  readonly column?: string;
  readonly constraint?: string;
}

function classifySqlState(error: PostgresError, sqlState: string): Fault {
  const where = [error.table, error.column].filter(Boolean).join('.');
  if (sqlState === SQLSTATE.CHECK_VIOLATION && error.constraint === undefined) {
    const { table } = error;
    return {
      kind: 'no-partition',
      text: `${table ?? 'a table'} has no partition for the time`,
      ...(table !== undefined && { table }),
    };
  }
  if (RECORD_CLASSES.has(sqlStateClass(sqlState))) {
    // Never the server's message, which contains values.
    const condition = CONDITIONS[sqlState] ?? 'a value that cannot be stored';
    return { kind: 'record', text: `${condition} (SQLSTATE ${sqlState}${where ? `, ${where}` : ''})` };
  }
  if (isTransient(sqlState)) {
    const condition = WAIT_CONDITIONS[sqlState];
    const because = condition ? `: ${condition}` : '';
    const text = `the database cannot store the records now${because} (SQLSTATE ${sqlState})`;
    return { kind: 'wait', text, ...suspicionOf(sqlState) };
  }
  const text = `the database refuses: ${error.message} (SQLSTATE ${sqlState})`;
  return { kind: 'unexpected', text, ...suspicionOf(sqlState) };
}

function suspicionOf(sqlState: string): Pick<Fault, 'suspected'> {
  if (TIME_CODES.has(sqlState)) return { suspected: 'time' };
  const suspicious = SUSPICIOUS_CLASSES.has(sqlStateClass(sqlState)) || sqlState === SQLSTATE.OUT_OF_MEMORY;
  return suspicious ? { suspected: 'records' } : {};
}
