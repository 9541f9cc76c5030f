import {
  ENCRYPTED_COLUMNS,
  type EncryptedEndpoint,
  type EncryptedRow,
  encryptedEndpoint,
} from '../../shared/postgres/encrypted-endpoint.ts';
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

/** The webhooks of an endpoint that have not ended. */
export interface QueuedWebhooks {
  readonly waiting: number;
  readonly inFlight: number;
  /** When the first of the waiting webhooks is due; null if none waits. */
  readonly nextAtMs: number | null;
}

/** Counts the webhooks in the queue of an endpoint. */
export async function countQueued(db: Queryable, id: EndpointId, nowMs: number): Promise<QueuedWebhooks> {
  // While a webhook is leased, its due time is the end of the lease.
  const { rows } = await db.query<QueuedWebhooks>(
    `select count(*) filter (where not in_flight)::int as waiting, count(*) filter (where in_flight)::int as "inFlight",
            ${epochMs('min(due_at) filter (where not in_flight and not parked)')} as "nextAtMs"
       from (select lease_token is not null and due_at > $3 as in_flight, parked, due_at
               from webhook_queue
              where tenant_id = $1 and endpoint_id = $2) as queued`,
    [id.tenantId, id.endpointId, new Date(nowMs)],
  );
  return rows[0]!;
}

/** Returns what an endpoint's webhooks are sent with; undefined if there is no such endpoint. */
export async function readEncryptedEndpoint(
  db: Queryable,
  id: EndpointId,
): Promise<EncryptedEndpoint | undefined> {
  const { rows } = await db.query<EncryptedRow>(
    `select ${ENCRYPTED_COLUMNS}
       from webhook_endpoints
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [id.tenantId, id.endpointId],
  );
  return rows[0] && encryptedEndpoint(rows[0]);
}

/** Returns which of the tenants has, or had, an endpoint; undefined if none. */
export async function findTenantOfEndpoint(
  db: Queryable,
  tenantIds: readonly string[],
  endpointId: string,
): Promise<string | undefined> {
  const { rows } = await db.query<{ tenantId: string }>(
    `select tenant_id as "tenantId" from webhook_endpoints
      where tenant_id = any($1::text[]) and endpoint_id = $2`,
    [tenantIds, endpointId],
  );
  return rows[0]?.tenantId;
}
