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

/** The parts of an attempt in milliseconds, and the class of its error. Default: not measured. */
export interface AttemptParts {
  readonly dnsMs?: number | null;
  readonly connectMs?: number | null;
  readonly tlsMs?: number | null;
  /** From the request to the first byte of the answer. */
  readonly firstByteMs?: number | null;
  readonly errorClass?: string | null;
}

/** Appends attempts to the log of an endpoint. */
export async function insertAttempts(
  client: Queryable,
  id: EndpointId,
  attempts: readonly (AttemptRecord & AttemptParts)[],
): Promise<void> {
  if (attempts.length === 0) return;
  await insertRows(
    client,
    'webhook_attempts',
    COLUMNS,
    attempts.map((attempt) => ({ ...id, ...attempt })),
  );
}

/** The columns of the parts of an attempt. */
export const ATTEMPT_PART_COLUMNS: readonly Column<AttemptParts>[] = [
  { name: 'dns_ms', type: 'integer', value: ({ dnsMs }) => rounded(dnsMs) },
  { name: 'connect_ms', type: 'integer', value: ({ connectMs }) => rounded(connectMs) },
  { name: 'tls_ms', type: 'integer', value: ({ tlsMs }) => rounded(tlsMs) },
  { name: 'first_byte_ms', type: 'integer', value: ({ firstByteMs }) => rounded(firstByteMs) },
  { name: 'error_class', type: 'text', value: ({ errorClass }) => errorClass ?? null },
];

function rounded(ms: number | null | undefined): number | null {
  return ms === null || ms === undefined ? null : Math.round(ms);
}

const COLUMNS: readonly Column<EndpointId & AttemptRecord & AttemptParts>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'endpoint_id', type: 'text', value: ({ endpointId }) => endpointId },
  { name: 'message_id', type: 'text', value: ({ messageId }) => messageId },
  { name: 'attempt', type: 'integer', value: ({ attempt }) => attempt },
  { name: 'created_at', type: 'timestamptz', value: ({ createdAtMs }) => createdAtMs },
  { name: 'status', type: 'integer', value: ({ status }) => status },
  { name: 'error', type: 'text', value: ({ error }) => error },
  { name: 'duration_ms', type: 'integer', value: ({ durationMs }) => Math.round(durationMs) },
  { name: 'answer', type: 'bytea', value: ({ answer }) => answer },
  ...ATTEMPT_PART_COLUMNS,
];
