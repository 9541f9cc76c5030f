import { timeOfId } from '../../shared/postgres/deliveries/delivery-stream.ts';
import type { StoredMessage } from '../../shared/postgres/deliveries/record-deliveries.ts';
import {
  ENCRYPTED_COLUMNS,
  type EncryptedEndpoint,
  type EncryptedRow,
  encryptedEndpoint,
} from '../../shared/postgres/encrypted-endpoint.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs, isoTime } from '../../shared/postgres/times.ts';
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

/** An id is made within this time of the time that is stored with it, unless clocks differ. */
const ID_WINDOW_MS = 60_000;

/** Returns when webhooks of an endpoint were stored, by their ids, without those that are not found. */
export async function findStoredTimes(
  db: Queryable,
  id: EndpointId,
  messageIds: readonly string[],
): Promise<StoredMessage[]> {
  const ids = messageIds.filter((one) => !Number.isNaN(timeOfId(one)));
  const times = (offMs: number) => ids.map((one) => isoTime(timeOfId(one) + offMs));
  const { rows } = await db.query<StoredMessage>(
    `select message_id as "messageId", ${epochMs('created_at')} as "createdAtMs" from webhook_queue
      where tenant_id = $1 and endpoint_id = $2 and message_id = any($3::text[])
     union all
     select d.message_id, ${epochMs('d.created_at')}
       from unnest($3::text[], $4::timestamptz[], $5::timestamptz[]) as given (message_id, from_at, to_at)
       join webhook_deliveries d
         on d.tenant_id = $1 and d.endpoint_id = $2 and d.message_id = given.message_id
        and d.created_at >= given.from_at and d.created_at < given.to_at`,
    [id.tenantId, id.endpointId, ids, times(-ID_WINDOW_MS), times(ID_WINDOW_MS)],
  );
  return rows;
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
