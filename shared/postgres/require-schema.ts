import { checkSchema } from './migrate.ts';
import type { Pool } from './pool.ts';
import { isDatabaseUnavailable } from './unavailable.ts';

/**
 * Ends the start of a process whose release does not fit the schema (AppError SCHEMA_OUTDATED, SCHEMA_TOO_NEW). A
 * database that is down does not end it: readiness waits for it.
 */
export async function requireSchema(pool: Pool): Promise<void> {
  try {
    await checkSchema(pool);
  } catch (error) {
    if (!isDatabaseUnavailable(error)) throw error;
  }
}
