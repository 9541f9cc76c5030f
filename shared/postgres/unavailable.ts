import { AppError, errorCode } from '../errors.ts';

/**
 * SQLSTATE classes that tell about the server's state and not about the statement: connection, rollback by
 * concurrency, resources, not in the needed state, operator intervention, system error.
 */
const TRANSIENT_CLASSES: ReadonlySet<string> = new Set(['08', '40', '53', '55', '57', '58']);

/** Whether what a statement threw may go away by itself: the server is down, busy or unreachable. Defects do not. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (error instanceof AppError) return error.retryable;
  if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError)
    return false;
  if (!isServerError(error)) return true;
  return TRANSIENT_CLASSES.has(errorCode(error)?.slice(0, 2) ?? '');
}

/** Errors that the server reported have a severity; those of sockets, the pool and deadlines have none. */
function isServerError(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'severity' in error;
}
