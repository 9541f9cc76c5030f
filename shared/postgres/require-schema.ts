import { AppError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { checkSchema } from './migrate.ts';
import type { Pool } from './pool.ts';
import { DATABASE_REFUSED, databaseRefusal, databaseTrouble } from './refusals.ts';
import { readServerFacts, requireVersion } from './server-facts.ts';
import { isDatabaseUnavailable } from './unavailable.ts';

/**
 * Ends the start of a process whose release does not fit the server (AppError DATABASE_TOO_OLD) or the schema
 * (SCHEMA_OUTDATED, SCHEMA_TOO_NEW), or that the server refuses (DATABASE_REFUSED). A database that is down does not end
 * it: readiness waits for it, and the log says so.
 */
export async function requireSchema(pool: Pool, logger: Logger): Promise<void> {
  try {
    requireVersion((await readServerFacts(pool)).version);
    await checkSchema(pool);
  } catch (error) {
    if (isDatabaseUnavailable(error)) {
      const problem = databaseTrouble(error);
      return logger.warn({ problem }, 'the database cannot be reached; this process waits for it');
    }
    const refusal = databaseRefusal(error);
    throw refusal ? new AppError(DATABASE_REFUSED, refusal, { cause: error }) : error;
  }
}
