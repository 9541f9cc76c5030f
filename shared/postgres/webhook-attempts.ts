import { type Column, insertRows } from './bulk-rows.ts';
import type { Queryable } from './pool.ts';
import type { EndpointId } from './webhook-endpoints.ts';

/** One attempt, as shown to the endpoint's owner. */
export interface AttemptRecord {
  readonly messageId: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly createdAtMs: number;
  readonly durationMs: number;
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** The reason of the failure as text; null if the webhook was delivered. */
  readonly error: string | null;
  /** First bytes of the response's body. */
  readonly answer: Buffer | null;
}

/** Appends attempts to the log of an endpoint. */
export async function insertAttempts(
  client: Queryable,
  id: EndpointId,
  attempts: readonly AttemptRecord[],
): Promise<void> {
  if (attempts.length === 0) return;
  await insertRows(
    client,
    'webhook_attempts',
    COLUMNS,
    attempts.map((attempt) => ({ ...id, ...attempt })),
  );
}

const COLUMNS: readonly Column<EndpointId & AttemptRecord>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'endpoint_id', type: 'text', value: ({ endpointId }) => endpointId },
  { name: 'message_id', type: 'text', value: ({ messageId }) => messageId },
  { name: 'attempt', type: 'integer', value: ({ attempt }) => attempt },
  { name: 'created_at', type: 'timestamptz', value: ({ createdAtMs }) => createdAtMs },
  { name: 'status', type: 'integer', value: ({ status }) => status },
  { name: 'error', type: 'text', value: ({ error }) => error },
  { name: 'duration_ms', type: 'integer', value: ({ durationMs }) => Math.round(durationMs) },
  { name: 'answer', type: 'bytea', value: ({ answer }) => answer },
];
