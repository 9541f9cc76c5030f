import type { Refusal } from '../contracts/errors.ts';
import { isDatabaseUnavailable } from '../postgres/sqlstate.ts';
import type { HttpContext } from './env.ts';

/** The result of statements, or the reason why the request is refused. */
export type DatabaseResult<T> =
  | { readonly value: T; readonly refusal?: undefined }
  | { readonly refusal: Refusal };

/**
 * Runs the statements of a request. While the database is unavailable, the result is a refusal with
 * 503-01, and the access log contains the cause.
 */
export async function withDatabase<T>(
  c: HttpContext,
  statements: () => Promise<T>,
): Promise<DatabaseResult<T>> {
  try {
    return { value: await statements() };
  } catch (error) {
    if (!isDatabaseUnavailable(error)) throw error;
    c.set('cause', error);
    return { refusal: { code: '503-01' } };
  }
}
