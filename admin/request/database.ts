import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';
import { isDatabaseUnavailable } from '../../shared/postgres/sqlstate.ts';

/** Runs statements for a request; where the database cannot be used, the answer is 503-01. */
export async function withDatabase<T>(
  c: HttpContext,
  statements: () => Promise<T>,
): Promise<{ readonly ok: true; readonly value: T } | { readonly ok: false; readonly answer: Response }> {
  try {
    return { ok: true, value: await statements() };
  } catch (error) {
    if (!isDatabaseUnavailable(error)) throw error;
    c.set('cause', error);
    return { ok: false, answer: fail(c, '503-01') };
  }
}
