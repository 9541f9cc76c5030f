import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-due-endpoints.ts';

/** One attempt as its endpoint's owner may read it. */
export interface AttemptRecord {
  readonly messageId: string;
  /** From 1. */
  readonly attempt: number;
  readonly createdAtMs: number;
  readonly durationMs: number;
  /** HTTP status; null without an answer. */
  readonly status: number | null;
  /** Why it failed, in words; null when delivered. */
  readonly error: string | null;
  /** First bytes of the answer's body. */
  readonly answer: Buffer | null;
}

/** Appends attempts to the log of an endpoint. */
export async function insertAttempts(
  client: Queryable,
  id: EndpointId,
  attempts: readonly AttemptRecord[],
): Promise<void> {
  if (attempts.length === 0) return;
  await client.query(
    `insert into webhook_attempts
       (tenant_id, endpoint_id, message_id, attempt, created_at, status, error, duration_ms, answer)
     select $1::text, $2::text, given.*
       from unnest($3::text[], $4::int[], $5::timestamptz[], $6::int[], $7::text[], $8::int[], $9::bytea[]) as given`,
    [
      id.tenantId,
      id.endpointId,
      attempts.map(({ messageId }) => messageId),
      attempts.map(({ attempt }) => attempt),
      attempts.map(({ createdAtMs }) => new Date(createdAtMs)),
      attempts.map(({ status }) => status),
      attempts.map(({ error }) => error),
      attempts.map(({ durationMs }) => Math.round(durationMs)),
      attempts.map(({ answer }) => answer),
    ],
  );
}
