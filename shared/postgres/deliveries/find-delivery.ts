import { inTransaction, type Pool, type Queryable } from '../pool.ts';
import { epochMs, isoTime } from '../times.ts';
import type { AttemptParts, AttemptRecord } from '../webhook-attempts.ts';
import {
  type Delivery,
  type DeliveryKey,
  deliveryColumns,
  describeDelivery,
  ENDED_COLUMNS,
  ENDPOINT_COLUMNS,
  QUEUED_COLUMNS,
} from './delivery.ts';

/** An attempt, as stored. */
export type StoredAttempt = Omit<AttemptRecord, 'messageId'> & Required<AttemptParts>;

/** A delivery with what was sent, and what came back. */
export interface DeliveryDetails extends Delivery {
  /** Exactly the bytes that are sent; null: erased, or its week was dropped. */
  readonly body: Buffer | null;
  /** Oldest first, at most 100. */
  readonly attemptLog: readonly StoredAttempt[];
}

/** Attempts of one delivery that are shown, the newest ones: each time that it is queued has 10. */
const ATTEMPTS_MAX = 100;

/** Resolves with a tenant's delivery; undefined if there is none. */
export async function findDelivery(
  pool: Pool,
  tenantId: string,
  key: DeliveryKey,
  nowMs: number,
): Promise<DeliveryDetails | undefined> {
  return await inTransaction(
    pool,
    async (db) => {
      const delivery = await readDelivery(db, tenantId, key, nowMs);
      if (!delivery) return undefined;
      return { ...delivery, attemptLog: await readAttempts(db, tenantId, key) };
    },
    { preferIndexes: true },
  );
}

/** Resolves with a delivery and its body. A delivery is in one of the two tables. */
export async function readDelivery(
  db: Queryable,
  tenantId: string,
  { endpointId, messageId, createdAtMs }: DeliveryKey,
  nowMs: number,
): Promise<Omit<DeliveryDetails, 'attemptLog'> | undefined> {
  const { rows } = await db.query<Omit<DeliveryDetails, 'attemptLog'>>(
    `select ${deliveryColumns('d')}, m.type, coalesce(d.own_body, m.body) as body, ${ENDPOINT_COLUMNS}
       from (select ${QUEUED_COLUMNS}, q.body as own_body from webhook_queue q
              where q.tenant_id = $1 and q.endpoint_id = $3 and q.message_id = $4 and q.created_at = $5
             union all
             select ${ENDED_COLUMNS}, null from webhook_deliveries q
              where q.tenant_id = $1 and q.endpoint_id = $3 and q.message_id = $4 and q.created_at = $5) as d
       left join webhook_messages m on m.tenant_id = $1 and m.created_at = $5 and m.message_id = $4
       left join webhook_endpoints e on e.tenant_id = $1 and e.endpoint_id = $3
      where $2::timestamptz is not null
      limit 1`,
    [tenantId, isoTime(nowMs), endpointId, messageId, isoTime(createdAtMs)],
  );
  return rows[0];
}

async function readAttempts(
  db: Queryable,
  tenantId: string,
  { endpointId, messageId, createdAtMs }: DeliveryKey,
): Promise<StoredAttempt[]> {
  const { rows } = await db.query<StoredAttempt>(
    `select attempt, ${epochMs('created_at')} as "createdAtMs", status, error, error_class as "errorClass",
            duration_ms as "durationMs", dns_ms as "dnsMs", connect_ms as "connectMs", tls_ms as "tlsMs",
            first_byte_ms as "firstByteMs", answer
       from webhook_attempts
      where tenant_id = $1 and endpoint_id = $2 and message_id = $3 and created_at >= $4
      order by created_at desc
      limit ${ATTEMPTS_MAX}`,
    // The clock of the process that sent it may be behind.
    [tenantId, endpointId, messageId, isoTime(createdAtMs - 86_400_000)],
  );
  return rows.reverse();
}

/** Returns a delivery with its body and attempts as the admin API and commands show it. */
export function describeDetails(details: DeliveryDetails, nowMs: number) {
  let repetition = 0;
  let before = 0;
  return {
    ...describeDelivery(details, nowMs),
    body: details.body === null ? null : details.body.toString(),
    attemptLog: details.attemptLog.map((stored) => {
      // Numbers begin with 1 each time that the delivery is queued.
      if (stored.attempt <= before) repetition += 1;
      before = stored.attempt;
      return describeAttempt(stored, repetition);
    }),
  };
}

function describeAttempt({ createdAtMs, answer, attempt, ...parts }: StoredAttempt, repetition: number) {
  const { status, error, errorClass, durationMs, dnsMs, connectMs, tlsMs, firstByteMs } = parts;
  return {
    attempt,
    repetition,
    finishedAt: new Date(createdAtMs).toISOString(),
    status,
    error,
    errorClass,
    durationMs,
    dnsMs,
    connectMs,
    tlsMs,
    firstByteMs,
    answer: answer === null ? null : answer.toString(),
  };
}
