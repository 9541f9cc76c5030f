import { AppError, BATCH_BOUND_EXCEEDED, errorCode } from '../../shared/errors.ts';
import { POSITION_LOST } from '../../shared/log/log.ts';
import { databaseRefusal, databaseTrouble } from '../../shared/postgres/refusals.ts';
import { isTransient, SQLSTATE, sqlStateClass, sqlStateOf } from '../../shared/postgres/sqlstate.ts';

/**
 * Why a batch failed, by what is to be done:
 * - `record`: one of its records cannot be stored, whoever tries: bisect.
 * - `bound`: its records together exceed a limit of ours: store fewer.
 * - `no-partition`: a table has no partition for one of its times: create it.
 * - `wait`: something outside is down or busy: retry for as long as that lasts.
 * - `stop`: the partition is not read from its position, or the log is another one: find the start
 *   again. Where the log is another one, only an operator can make that possible.
 * - `unexpected`: anything else: retry, but not ready meanwhile.
 */
export interface Fault {
  readonly kind: 'record' | 'bound' | 'no-partition' | 'wait' | 'stop' | 'unexpected';
  /** Text for operators, without values of records. */
  readonly text: string;
  /** The table that lacks a partition; undefined if the server does not name it, as Citus. */
  readonly table?: string;
  /**
   * Set where the batch may be the cause, by its size or by one of its records. `time`: its
   * transaction took too long. `records`: the server or our own code failed during the batch.
   */
  readonly suspected?: 'time' | 'records';
}

/** Cardinality, data, constraint, program limit: a value of a record can cause these. */
const RECORD_CLASSES = new Set(['21', '22', '23', '54']);
/** The server ended a transaction that its client left idle, as a frozen process does. */
const WAIT_CODES: ReadonlySet<string> = new Set([
  SQLSTATE.IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
  SQLSTATE.TRANSACTION_TIMEOUT,
]);
/** The transaction, or one of its statements, took longer than the server or we allow. */
const TIME_CODES: ReadonlySet<string> = new Set([...WAIT_CODES, SQLSTATE.QUERY_CANCELED]);
/**
 * The session or the server ended, or failed internally: a large batch or one record can cause
 * these. Not contention, a full disk, or a refusal that concerns every batch alike.
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
  '23505': 'a key that exists',
  '23514': 'a value that breaks a rule of the table',
  '54000': 'a row that is too large',
};

/** Conditions that operators can fix. */
const WAIT_CONDITIONS: Readonly<Record<string, string>> = {
  '53100': 'its disk is full',
  '53300': 'it has no connection left',
  '55P03': 'another session holds a lock that it needs',
};

/**
 * Classifies an error of storing a batch by SQLSTATE, code and type, never by the text of its
 * message.
 */
export function classifyFault(error: unknown): Fault {
  const refusal = databaseRefusal(error);
  if (refusal) return { kind: 'unexpected', text: refusal };
  const sqlState = sqlStateOf(error);
  if (sqlState) return classifySqlState(error as PostgresError, sqlState);
  if (error instanceof AppError) {
    if (error.code === POSITION_LOST) return { kind: 'stop', text: error.message };
    if (error.code === BATCH_BOUND_EXCEEDED) return { kind: 'bound', text: error.message };
    if (error.retryable) return { kind: 'wait', text: error.message };
    return { kind: 'unexpected', text: error.message, suspected: 'records' };
  }
  if (errorCode(error)) return { kind: 'wait', text: databaseTrouble(error), suspected: 'records' };
  // The driver reports lost and refused connections as plain errors without a code; bugs come as
  // TypeErrors and such.
  if (error instanceof Error && error.constructor === Error) {
    return { kind: 'wait', text: databaseTrouble(error), suspected: 'records' };
  }
  return {
    kind: 'unexpected',
    text: `a fault of the worker (${error instanceof Error ? error.name : typeof error})`,
    suspected: 'records',
  };
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
    // Never the message: it repeats values.
    const condition = CONDITIONS[sqlState] ?? 'a value that cannot be stored';
    return { kind: 'record', text: `${condition} (SQLSTATE ${sqlState}${where ? `, ${where}` : ''})` };
  }
  if (isTransient(sqlState) || WAIT_CODES.has(sqlState)) {
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
