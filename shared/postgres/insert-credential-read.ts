import { errorCode } from '../errors.ts';
import type { Pool, Queryable } from './pool.ts';
import { SQLSTATE } from './sqlstate.ts';
import { ensureTimePartitions } from './time-partitions.ts';

/**
 * The outcome of a request for a conversation's credentials. Only `read` disclosed any. `erasure`
 * was a request to erase them.
 */
export type CredentialReadOutcome =
  | 'read'
  | 'missing'
  | 'expired'
  | 'erased'
  | 'key-lost'
  | 'unreadable'
  | 'erasure';

/** One line of the audit. Never holds a part of the credentials. */
export interface CredentialRead {
  readonly tenantId: string;
  readonly readId: string;
  readonly readAtMs: number;
  /** The key that asked. */
  readonly apiKeyId: string;
  readonly requestId: string;
  readonly conversationId: string;
  readonly outcome: CredentialReadOutcome;
  /** The submission; null where there was none. */
  readonly eventId: string | null;
}

/** Writes a line of the audit; resolves once it is committed. */
export async function insertCredentialRead(pool: Pool, read: CredentialRead): Promise<void> {
  await insertInReadPartition(pool, read.readAtMs, () => writeCredentialRead(pool, read));
}

/**
 * Runs a write to the audit; creates the partition for its time and repeats it where there is none.
 */
export async function insertInReadPartition<T>(
  pool: Pool,
  readAtMs: number,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    // Workers create the partitions in advance. Where none has run for weeks, the row's week has
    // none yet.
    if (errorCode(error) !== SQLSTATE.CHECK_VIOLATION) throw error;
    await ensureTimePartitions(pool, 'credential_reads', readAtMs, readAtMs);
    return await write();
  }
}

/** Writes a line of the audit as part of a transaction, inside {@link insertInReadPartition}. */
export async function writeCredentialRead(db: Queryable, read: CredentialRead): Promise<void> {
  await db.query(
    `insert into credential_reads
       (tenant_id, read_at, read_id, api_key_id, request_id, conversation_id, outcome, event_id)
     values ($1::text, $2::timestamptz, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text)`,
    [
      read.tenantId,
      new Date(read.readAtMs),
      read.readId,
      read.apiKeyId,
      read.requestId,
      read.conversationId,
      read.outcome,
      read.eventId,
    ],
  );
}
