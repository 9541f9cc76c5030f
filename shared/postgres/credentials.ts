import { type ConversationOfTenant, holdWriters } from './credential-erasures.ts';
import { insertInReadPartition, writeCredentialRead } from './credential-reads.ts';
import { eraseCredentialsInDeadLetters } from './dead-letter-credentials.ts';
import { inTransaction, type Pool } from './pool.ts';

export interface Erasure extends ConversationOfTenant {
  readonly erasedAtMs: number;
  /** The id of the entry in the audit log. */
  readonly readId: string;
  /** The API key of the request. */
  readonly apiKeyId: string;
  readonly requestId: string;
}

/** Runs one step of an erasure when the tenant has a slot for database work. */
export type RunStep = <T>(step: () => Promise<T>) => Promise<T>;

/**
 * Shorter than the 30 s after which the server terminates the idle transaction of a worker that
 * hangs.
 */
const LOCK_WAIT_MS = 5000;
/** Rows per step, about 10 ms of work. */
const STEP_ROWS = 1000;

/**
 * Erases the stored submissions of a conversation and the values of its dead letters. Submissions
 * that are still in the log will be stored without their ciphertext. Returns the number of erased
 * submissions, once the erasure and its audit entry are committed.
 *
 * The erasure is recorded first; from then on, the submissions cannot be read. Only that short
 * transaction blocks the workers' batches. The rows are erased in steps, each in its own
 * transaction without that lock, so that large erasures block no others. Repeating an interrupted
 * erasure completes it.
 */
export async function eraseCredentials(
  pool: Pool,
  erasure: Erasure,
  runStep: RunStep = (step) => step(),
): Promise<number> {
  const ahead = await runStep(() => findAhead(pool, erasure));
  await runStep(() => insertInReadPartition(pool, erasure.erasedAtMs, () => recordErasure(pool, erasure)));
  let erased = 0;
  for (let from = 0; from < ahead.length; from += STEP_ROWS) {
    const ids = ahead.slice(from, from + STEP_ROWS);
    erased += await runStep(() => eraseRows(pool, erasure, ids));
  }
  for (let after: string | undefined = ''; after !== undefined; ) {
    const step: EraseStep = await runStep(() => eraseAfter(pool, erasure, after!));
    erased += step.erased;
    after = step.last;
  }
  return erased + (await runStep(() => eraseCredentialsInDeadLetters(pool, erasure)));
}

/**
 * Returns stored submissions with a later time than the erasure, which come from gateways whose
 * clock is ahead. There are usually none.
 */
async function findAhead(pool: Pool, erasure: Erasure): Promise<string[]> {
  const { tenantId, conversationId, erasedAtMs } = erasure;
  const { rows } = await pool.query<{ eventId: string }>(
    `select event_id as "eventId"
       from credentials
      where tenant_id = $1 and conversation_id = $2 and ciphertext is not null and accepted_at > $3`,
    [tenantId, conversationId, new Date(erasedAtMs)],
  );
  return rows.map(({ eventId }) => eventId);
}

/** Records the erasure. All batches that commit later see this record. */
async function recordErasure(pool: Pool, erasure: Erasure): Promise<void> {
  const { tenantId, conversationId, erasedAtMs, readId, apiKeyId, requestId } = erasure;
  await inTransaction(
    pool,
    async (client) => {
      await holdWriters(client, tenantId);
      await client.query(
        `insert into credential_erasures as before (tenant_id, conversation_id, erased_at)
         values ($1, $2, $3)
         on conflict (tenant_id, conversation_id)
         do update set erased_at = greatest(before.erased_at, excluded.erased_at)`,
        [tenantId, conversationId, new Date(erasedAtMs)],
      );
      await writeCredentialRead(client, {
        tenantId,
        readId,
        readAtMs: erasedAtMs,
        apiKeyId,
        requestId,
        conversationId,
        outcome: 'erasure',
        eventId: null,
      });
    },
    { lockTimeoutMs: LOCK_WAIT_MS },
  );
}

interface EraseStep {
  readonly erased: number;
  /** The last id of this step, after which the next step begins; undefined after the last step. */
  readonly last: string | undefined;
}

async function eraseAfter(pool: Pool, erasure: Erasure, after: string): Promise<EraseStep> {
  const { tenantId, conversationId, erasedAtMs } = erasure;
  const { rows } = await pool.query<{ eventId: string }>(
    `select event_id as "eventId"
       from credentials
      where tenant_id = $1 and conversation_id = $2 and event_id > $3
        and ciphertext is not null and accepted_at <= $4
      order by event_id limit $5`,
    [tenantId, conversationId, after, new Date(erasedAtMs), STEP_ROWS],
  );
  const ids = rows.map(({ eventId }) => eventId);
  if (ids.length === 0) return { erased: 0, last: undefined };
  const erased = await eraseRows(pool, erasure, ids);
  return { erased, last: ids.length < STEP_ROWS ? undefined : ids.at(-1) };
}

async function eraseRows(pool: Pool, erasure: Erasure, eventIds: readonly string[]): Promise<number> {
  const { rowCount } = await pool.query(
    `update credentials set ciphertext = null
      where tenant_id = $1 and conversation_id = $2 and event_id = any($3::text[]) and ciphertext is not null`,
    [erasure.tenantId, erasure.conversationId, eventIds],
  );
  return rowCount ?? 0;
}
