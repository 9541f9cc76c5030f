import { errorCode } from '../errors.ts';
import type { Pool } from './pool.ts';
import { ensureTimePartitions } from './time-partitions.ts';

/** What came of asking for a conversation's credentials; all but `read` handed nothing out. */
export type CredentialReadOutcome = 'read' | 'missing' | 'expired' | 'erased' | 'key-lost' | 'unreadable';

/** One line of the audit. Never holds anything of the credentials. */
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

/** SQLSTATE check_violation: there is no partition for the row's week yet. */
const NO_PARTITION = '23514';

/** Writes a line of the audit; resolves once it is committed. */
export async function insertCredentialRead(pool: Pool, read: CredentialRead): Promise<void> {
  try {
    await insert(pool, read);
  } catch (error) {
    // The workers make partitions ahead; where none has run for weeks, reads must go on all the same.
    if (errorCode(error) !== NO_PARTITION) throw error;
    await ensureTimePartitions(pool, 'credential_reads', read.readAtMs, read.readAtMs);
    await insert(pool, read);
  }
}

async function insert(pool: Pool, read: CredentialRead): Promise<void> {
  await pool.query(
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
