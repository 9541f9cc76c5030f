import { AppError } from '../errors.ts';
import { isServerError, isTransient, sqlStateOf } from './sqlstate.ts';

/**
 * Returns whether what a statement threw may succeed later: the server is down, busy or
 * unreachable. Defects do not.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (error instanceof AppError) return error.retryable;
  if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) {
    return false;
  }
  return !isServerError(error) || isTransient(sqlStateOf(error) ?? '');
}
