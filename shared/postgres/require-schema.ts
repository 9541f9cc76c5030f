import { sleep } from '../async.ts';
import { AppError } from '../errors.ts';
import type { KeyRing } from '../keyring/keyring.ts';
import type { Logger } from '../logging.ts';
import { checkSchema } from './migrate.ts';
import type { Pool, Queryable } from './pool.ts';
import { DATABASE_REFUSED, databaseRefusal, databaseTrouble } from './refusals.ts';
import { requireKeys } from './require-keys.ts';
import { findCitus, readServerFacts, requireServer } from './server-facts.ts';
import { isDatabaseUnavailable, isSessionRefused } from './sqlstate.ts';

export interface RequireSchemaOptions {
  readonly pool: Pool;
  readonly logger: Logger;
  /** The key ring of a process that encrypts: see {@link requireKeys}. */
  readonly keyRing?: KeyRing;
  /**
   * Called if a database that was down at the start is found to be unusable later. The process must
   * then end.
   */
  readonly onUnfit: (error: unknown) => void;
  /** Milliseconds between two attempts to reach the database. Default 2000. */
  readonly retryMs?: number;
  /** Milliseconds without an answer after which the database counts as down. Default 10,000. */
  readonly answerTimeoutMs?: number;
}

const RETRY_MS = 2000;
const ANSWER_TIMEOUT_MS = 10_000;

/**
 * Rejects when this release cannot use the database. AppErrors: DATABASE_TOO_OLD,
 * DATABASE_UNSUITABLE (the server), SCHEMA_OUTDATED, SCHEMA_TOO_NEW (the schema), KEY_WRONG (a key
 * differs from the one in use), DATABASE_REFUSED (the connection). A database that is down is no
 * error: this is logged, and the check runs as soon as the database answers.
 */
export async function requireSchema(options: RequireSchemaOptions): Promise<void> {
  const { logger } = options;
  try {
    await requireFit(options);
  } catch (error) {
    if (isUnfit(error)) throw refusalOf(error);
    const problem = databaseTrouble(error);
    logger.warn({ problem }, 'database unreachable, waiting');
    void requireLater(options);
  }
}

async function requireLater(options: RequireSchemaOptions): Promise<void> {
  const { onUnfit, retryMs = RETRY_MS } = options;
  for (;;) {
    // A pool that was closed meanwhile counts as a database that is down.
    await sleep(retryMs, { ref: false });
    try {
      return await requireFit(options);
    } catch (error) {
      if (isUnfit(error)) return onUnfit(refusalOf(error));
    }
  }
}

async function requireFit({
  pool,
  keyRing,
  answerTimeoutMs = ANSWER_TIMEOUT_MS,
}: RequireSchemaOptions): Promise<void> {
  // A pooler without a free session accepts connections and does not answer.
  const db: Queryable = {
    query: (text) => pool.query({ text: text as string, query_timeout: answerTimeoutMs }),
  };
  requireServer(await readServerFacts(db));
  await findCitus(pool, db);
  await checkSchema(db);
  if (keyRing) await requireKeys(pool, keyRing);
}

/** A start ends if the server refuses sessions, because then a setting is probably wrong. */
const isUnfit = (error: unknown): boolean => !isDatabaseUnavailable(error) || isSessionRefused(error);

function refusalOf(error: unknown): unknown {
  const refusal = databaseRefusal(error);
  return refusal ? new AppError(DATABASE_REFUSED, refusal, { cause: error }) : error;
}
