import { type ConversationOfTenant, holdWriters } from './credential-erasures.ts';
import { insertInReadPartition, writeCredentialRead } from './insert-credential-read.ts';
import { inTransaction, type Pool } from './pool.ts';

export interface Erasure extends ConversationOfTenant {
  readonly erasedAtMs: number;
  /** Of the line in the audit. */
  readonly readId: string;
  /** Who asked. */
  readonly apiKeyId: string;
  readonly requestId: string;
}

/** A worker that hangs in mid-transaction is ended by the server after 30 s; nobody should wait for that. */
const LOCK_WAIT_MS = 5000;

/**
 * Erases the stored submissions of a conversation, whatever the log still holds of before included: workers store that
 * without its ciphertext. Resolves with the number of submissions erased, once they and the audit's line are committed.
 */
export async function eraseCredentials(pool: Pool, erasure: Erasure): Promise<number> {
  const { tenantId, conversationId, erasedAtMs, readId, apiKeyId, requestId } = erasure;
  return await insertInReadPartition(pool, erasedAtMs, () =>
    inTransaction(pool, async (client) => {
      await client.query(`set local lock_timeout = ${LOCK_WAIT_MS}`);
      await holdWriters(client);
      await client.query(
        `insert into credential_erasures as before (tenant_id, conversation_id, erased_at)
         values ($1, $2, $3)
         on conflict (tenant_id, conversation_id)
         do update set erased_at = greatest(before.erased_at, excluded.erased_at)`,
        [tenantId, conversationId, new Date(erasedAtMs)],
      );
      const { rowCount } = await client.query(
        `update credentials set ciphertext = null
          where tenant_id = $1 and conversation_id = $2 and ciphertext is not null`,
        [tenantId, conversationId],
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
      return rowCount ?? 0;
    }),
  );
}
