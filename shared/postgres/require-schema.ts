import { AppError } from '../errors.ts';
import { checkSchema } from './migrate.ts';
import type { Pool } from './pool.ts';
import { DATABASE_REFUSED, databaseRefusal } from './refusals.ts';
import { isDatabaseUnavailable } from './unavailable.ts';

/**
 * Ends the start of a process whose release does not fit the schema (AppError SCHEMA_OUTDATED, SCHEMA_TOO_NEW), or that
 * the server refuses (DATABASE_REFUSED). A database that is down does not end it: readiness waits for it.
 */
export async function requireSchema(pool: Pool): Promise<void> {
  try {
    await checkSchema(pool);
  } catch (error) {
    if (isDatabaseUnavailable(error)) return;
    const refusal = databaseRefusal(error);
    throw refusal ? new AppError(DATABASE_REFUSED, refusal, { cause: error }) : error;
  }
}
