import { epochMs, toMs } from '../../shared/postgres/epoch-ms.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

/** The submission of credentials that counts for a conversation. */
export interface StoredSubmission {
  readonly eventId: string;
  readonly customerExternalId: string;
  readonly streamId: string | null;
  /** The key of the ring that encrypted it. */
  readonly keyId: string;
  /** Null once erased. */
  readonly ciphertext: Buffer | null;
  readonly acceptedAtMs: number;
  readonly expiresAtMs: number;
}

interface Row {
  readonly event_id: string;
  readonly customer_external_id: string;
  readonly stream_id: string | null;
  readonly key_id: string;
  readonly ciphertext: Buffer | null;
  readonly accepted_at_ms: bigint;
  readonly expires_at_ms: bigint;
}

/**
 * The newest submission of a conversation that is neither expired at `nowMs` nor erased; where there is none, the newest of
 * those; undefined where there are not even such. Newest by the order of the log. Rejects after `deadlineMs`.
 */
export async function findCredentials(
  pool: Pool,
  id: { readonly tenantId: string; readonly conversationId: string },
  nowMs: number,
  deadlineMs: number,
): Promise<StoredSubmission | undefined> {
  const [row] = await queryWithDeadline<Row>(
    pool,
    deadlineMs,
    `select event_id, customer_external_id, stream_id, key_id, ciphertext,
            ${epochMs('accepted_at')} as accepted_at_ms, ${epochMs('expires_at')} as expires_at_ms
       from (select c.event_id, c.customer_external_id, c.stream_id, c.key_id, c.accepted_at, c.expires_at,
                    c.generation, c."offset",
                    -- An erasure that is recorded holds, also for the rows that its steps have not reached yet.
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
  if (!row) return undefined;
  return {
    eventId: row.event_id,
    customerExternalId: row.customer_external_id,
    streamId: row.stream_id,
    keyId: row.key_id,
    ciphertext: row.ciphertext,
    acceptedAtMs: toMs(row.accepted_at_ms),
    expiresAtMs: toMs(row.expires_at_ms),
  };
}
