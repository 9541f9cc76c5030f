import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';
import { epochMs } from '../../shared/postgres/times.ts';

/** A stored submission of credentials for a conversation. */
export interface StoredSubmission {
  readonly eventId: string;
  readonly customerExternalId: string;
  readonly streamId: string | null;
  /** Id of the key of the key ring that encrypted the ciphertext. */
  readonly keyId: string;
  /** Null if the submission was erased. */
  readonly ciphertext: Buffer | null;
  readonly acceptedAtMs: number;
  readonly expiresAtMs: number;
}

/**
 * Returns the newest submission of a conversation that is neither expired at `nowMs` nor erased. If
 * there is none, returns the newest erased submission that has not expired, else the newest of all.
 * Returns undefined if there are no submissions. "Newest" refers to the order of the log. Rejects
 * after `deadlineMs`.
 */
export async function findCredentials(
  pool: Pool,
  id: { readonly tenantId: string; readonly conversationId: string },
  nowMs: number,
  deadlineMs: number,
): Promise<StoredSubmission | undefined> {
  const [row] = await queryWithDeadline<StoredSubmission>(
    pool,
    deadlineMs,
    `select event_id as "eventId", customer_external_id as "customerExternalId", stream_id as "streamId",
            key_id as "keyId", ciphertext, ${epochMs('accepted_at')} as "acceptedAtMs",
            ${epochMs('expires_at')} as "expiresAtMs"
       from (select c.event_id, c.customer_external_id, c.stream_id, c.key_id, c.accepted_at, c.expires_at,
                    c.generation, c."offset",
                    -- A recorded erasure also holds for rows that its steps have not reached yet.
                    case when e.erased_at is null or c.accepted_at > e.erased_at then c.ciphertext end as ciphertext
               from credentials c
               left join credential_erasures e
                 on e.tenant_id = $1 and e.conversation_id = $2
              where c.tenant_id = $1 and c.conversation_id = $2) as submission
      order by (expires_at > $3 and ciphertext is not null) desc, (expires_at > $3) desc,
               generation desc, "offset" desc
      limit 1`,
    [id.tenantId, id.conversationId, new Date(nowMs)],
  );
  return row;
}
