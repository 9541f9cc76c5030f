import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { AttemptRecord } from '../../shared/postgres/webhook-attempts.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';

/** Returns the last attempts for an endpoint between two times (both inclusive), newest first. */
export async function listAttempts(
  db: Queryable,
  id: EndpointId,
  options: { readonly sinceMs: number; readonly untilMs: number; readonly limit: number },
): Promise<AttemptRecord[]> {
  const { rows } = await db.query<AttemptRecord>(
    `select message_id as "messageId", attempt, ${epochMs('created_at')} as "createdAtMs", duration_ms as "durationMs",
            status, error, answer
       from webhook_attempts
      where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at <= $4
      order by created_at desc, message_id desc, attempt desc
      limit $5`,
    [id.tenantId, id.endpointId, new Date(options.sinceMs), new Date(options.untilMs), options.limit],
  );
  return rows;
}

/**
 * Returns the signing secret of an endpoint, encrypted with the key ring; undefined if there is no
 * such endpoint.
 */
export async function readEndpointSecret(
  db: Queryable,
  tenantId: string,
  endpointId: string,
): Promise<{ readonly keyId: string; readonly ciphertext: Buffer } | undefined> {
  const { rows } = await db.query<{ keyId: string; ciphertext: Buffer }>(
    `select secret_key_id as "keyId", secret_ciphertext as ciphertext
       from webhook_endpoints
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [tenantId, endpointId],
  );
  return rows[0];
}
