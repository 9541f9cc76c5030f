import { epochMs, toMs } from '../../shared/postgres/epoch-ms.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-due-endpoints.ts';
import type { AttemptRecord } from '../../shared/postgres/webhook-insert-attempts.ts';

interface AttemptRow {
  readonly message_id: string;
  readonly attempt: number;
  readonly created_at_ms: bigint;
  readonly duration_ms: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly answer: Buffer | null;
}

/** Returns the last attempts for an endpoint between two times (both inclusive), newest first. */
export async function listAttempts(
  db: Queryable,
  id: EndpointId,
  options: { readonly sinceMs: number; readonly untilMs: number; readonly limit: number },
): Promise<AttemptRecord[]> {
  const { rows } = await db.query<AttemptRow>(
    `select message_id, attempt, ${epochMs('created_at')} as created_at_ms, duration_ms, status, error, answer
       from webhook_attempts
      where tenant_id = $1 and endpoint_id = $2 and created_at >= $3 and created_at <= $4
      order by created_at desc, message_id desc, attempt desc
      limit $5`,
    [id.tenantId, id.endpointId, new Date(options.sinceMs), new Date(options.untilMs), options.limit],
  );
  return rows.map((row) => ({
    messageId: row.message_id,
    attempt: row.attempt,
    createdAtMs: toMs(row.created_at_ms),
    durationMs: row.duration_ms,
    status: row.status,
    error: row.error,
    answer: row.answer,
  }));
}

/** Returns the signing secret of an endpoint, encrypted with the key ring; undefined if there is no such endpoint. */
export async function readEndpointSecret(
  db: Queryable,
  tenantId: string,
  endpointId: string,
): Promise<{ readonly keyId: string; readonly ciphertext: Buffer } | undefined> {
  const { rows } = await db.query<{ secret_key_id: string; secret_ciphertext: Buffer }>(
    `select secret_key_id, secret_ciphertext
       from webhook_endpoints
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [tenantId, endpointId],
  );
  const [row] = rows;
  return row && { keyId: row.secret_key_id, ciphertext: row.secret_ciphertext };
}
