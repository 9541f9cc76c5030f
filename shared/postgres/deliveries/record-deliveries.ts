import { KINDS, type Kind } from '../../contracts/kinds.ts';
import { findEvents } from '../event-keys.ts';
import type { Queryable } from '../pool.ts';
import { epochMs, isoTime } from '../times.ts';
import {
  type Delivery,
  deliveryColumns,
  ENDED_COLUMNS,
  ENDPOINT_COLUMNS,
  QUEUED_COLUMNS,
} from './delivery.ts';

/** A webhook, and when it was stored. */
export interface StoredMessage {
  readonly messageId: string;
  readonly createdAtMs: number;
}

/** Webhooks of one record. More are never written: one of the record and one of its last conflict. */
const MESSAGES_MAX = 100;

/**
 * Resolves with the webhooks about the tenant's records with this id, newest first. A webhook is stored
 * in the transaction of its record, so that both have the same time, and only the webhooks of that time
 * are searched. Finds nothing once the record's id has expired.
 */
export async function findMessagesOfRecord(
  db: Queryable,
  tenantId: string,
  recordId: string,
  kinds: readonly Kind[] = KINDS,
): Promise<StoredMessage[]> {
  const events = await findEvents(db, tenantId, recordId, kinds);
  const times = events.flatMap(({ storedAtMs, lastConflict }) => [
    storedAtMs,
    ...(lastConflict ? [lastConflict.atMs] : []),
  ]);
  if (times.length === 0) return [];
  const { rows } = await db.query<StoredMessage>(
    `select m.message_id as "messageId", ${epochMs('m.created_at')} as "createdAtMs"
       from webhook_messages m
      where m.tenant_id = $1 and m.created_at = any($2::timestamptz[])
        and (position($3::bytea in m.body) > 0 or position($4::bytea in m.body) > 0)
      order by m.created_at desc, m.message_id desc
      limit ${MESSAGES_MAX}`,
    [tenantId, times.map(isoTime), memberOf('automationAgentMessageId'), memberOf('eventId')],
  );
  return rows;

  /** Returns the bytes with which a member of a webhook's body names the record. */
  function memberOf(name: string): Buffer {
    return Buffer.from(`${JSON.stringify(name)}:${JSON.stringify(recordId)}`);
  }
}

/** Resolves with the deliveries of webhooks to some of the tenant's endpoints, newest first. */
export async function findOfMessages(
  db: Queryable,
  options: {
    readonly tenantId: string;
    readonly endpointIds: readonly string[];
    readonly messages: readonly StoredMessage[];
    readonly nowMs: number;
  },
): Promise<Delivery[]> {
  const { tenantId, endpointIds, messages, nowMs } = options;
  if (messages.length === 0 || endpointIds.length === 0) return [];
  const times = [...new Set(messages.map(({ createdAtMs }) => createdAtMs))];
  const given = 'q.tenant_id = $1 and q.endpoint_id = any($3::text[]) and q.message_id = any($5::text[])';
  const { rows } = await db.query<Delivery>(
    `select ${deliveryColumns('d')}, m.type, ${ENDPOINT_COLUMNS}
       from (select ${QUEUED_COLUMNS}, q.created_at from webhook_queue q where ${given}
             union all
             select ${ENDED_COLUMNS}, q.created_at from webhook_deliveries q
              where ${given} and q.created_at = any($4::timestamptz[])) as d
       left join webhook_messages m
         on m.tenant_id = $1 and m.created_at = any($4::timestamptz[])
        and m.created_at = d.created_at and m.message_id = d."messageId"
       left join webhook_endpoints e on e.tenant_id = $1 and e.endpoint_id = d."endpointId"
      where $2::timestamptz is not null
      order by d.created_at desc, d."messageId" desc, d."endpointId"
      limit ${DELIVERIES_MAX}`,
    [tenantId, isoTime(nowMs), endpointIds, times.map(isoTime), messages.map(({ messageId }) => messageId)],
  );
  return rows;
}

/** Maximum deliveries that are returned of a record. */
export const DELIVERIES_MAX = 1000;

/** Resolves with the deliveries of a record's webhooks to all endpoints of the tenant, newest first. */
export async function findDeliveriesOfRecord(
  db: Queryable,
  record: {
    readonly tenantId: string;
    readonly id: string;
    readonly kinds: readonly Kind[];
    readonly nowMs: number;
  },
): Promise<Delivery[]> {
  const { tenantId, id, kinds, nowMs } = record;
  const messages = await findMessagesOfRecord(db, tenantId, id, kinds);
  if (messages.length === 0) return [];
  const { rows } = await db.query<{ endpointId: string }>(
    `select endpoint_id as "endpointId" from webhook_endpoints where tenant_id = $1 and state <> 'deleted'`,
    [tenantId],
  );
  const endpointIds = rows.map(({ endpointId }) => endpointId);
  return await findOfMessages(db, { tenantId, endpointIds, messages, nowMs });
}
