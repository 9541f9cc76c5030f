import { compareText } from '../../shared/compare-text.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { findErasures, holdErasures } from '../../shared/postgres/credential-erasures.ts';
import { withoutErasedCredentials } from '../../shared/postgres/dead-letter-credentials.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { type CredentialsRow, insertCredentials } from '../sql/credentials.ts';
import { lateReadOf } from '../sql/read-positions.ts';
import type { WebhookEvent } from '../sql/webhook-events.ts';
import { requiredText, textMember } from './members.ts';
import { DataError, type ReadRecord, type RecordKind } from './record-kind.ts';

/**
 * A submission as stored in the log: the gateway encrypts the credentials before it publishes them.
 */
export interface StoredCredentials {
  readonly customerExternalId: string;
  readonly streamId: string | undefined;
  readonly keyId: string;
  readonly ciphertext: Buffer;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Returns the kind of credentials, with one row per submission. Credentials are kept for `ttlMs`
 * after acceptance. A submission that has already expired is stored without its ciphertext; so is
 * one that was accepted before an erasure of its conversation. Webhooks report that credentials
 * were stored, never the credentials.
 */
export function createCredentialsKind(ttlMs: number): RecordKind<StoredCredentials> {
  return {
    kind: 'credentials',
    timePartitioned: [],
    valuesKeptMs: ttlMs,
    withoutErased: withoutErasedCredentials,
    read: ({ data }) => readCredentials(data),
    erase(record, isErased) {
      const { event, row } = record;
      const isAnyErased =
        isErased('conversation-id', event.entity) || isErased('customer', row.customerExternalId);
      return isAnyErased ? undefined : record;
    },
    async write(db, records, { nowMs }) {
      const rows = records.map((record) => toRow(record, ttlMs, nowMs)).sort(compareRows);
      await holdErasures(
        db,
        rows.map(({ tenantId }) => tenantId),
      );
      await insertCredentials(db, await withoutErased(db, rows), nowMs);
      return records.map(toWebhookEvent);
    },
  };
}

function readCredentials(data: JsonObject): StoredCredentials {
  const ciphertext = requiredText(data, 'ciphertext');
  if (ciphertext === '' || !BASE64.test(ciphertext)) throw new DataError('ciphertext is not base64');
  return {
    customerExternalId: requiredText(data, 'customerExternalId'),
    streamId: textMember(data, 'streamId'),
    keyId: requiredText(data, 'keyId'),
    ciphertext: Buffer.from(ciphertext, 'base64'),
  };
}

function toRow(record: ReadRecord<StoredCredentials>, ttlMs: number, nowMs: number): CredentialsRow {
  const { event, row, firstPosition } = record;
  const expiresAtMs = event.acceptedAtMs + ttlMs;
  return {
    tenantId: event.tenantId,
    conversationId: event.entity,
    eventId: event.id,
    customerExternalId: row.customerExternalId,
    streamId: row.streamId ?? null,
    keyId: row.keyId,
    ciphertext: expiresAtMs > nowMs ? row.ciphertext : null,
    acceptedAtMs: event.acceptedAtMs,
    expiresAtMs,
    ...firstPosition,
    lateRead: lateReadOf(record),
    requestId: event.requestId,
  };
}

async function withoutErased(
  db: Queryable,
  rows: readonly CredentialsRow[],
): Promise<readonly CredentialsRow[]> {
  const erasures = await findErasures(db, rows);
  if (erasures.length === 0) return rows;
  // Tenant ids contain no space.
  const times = new Map(erasures.map((row) => [`${row.tenantId} ${row.conversationId}`, row.erasedAtMs]));
  return rows.map((row) => {
    const erasedAtMs = times.get(`${row.tenantId} ${row.conversationId}`);
    return erasedAtMs !== undefined && row.acceptedAtMs <= erasedAtMs ? { ...row, ciphertext: null } : row;
  });
}

function compareRows(a: CredentialsRow, b: CredentialsRow): number {
  return (
    compareText(a.tenantId, b.tenantId) ||
    compareText(a.conversationId, b.conversationId) ||
    compareText(a.eventId, b.eventId)
  );
}

function toWebhookEvent({ event, row }: ReadRecord<StoredCredentials>): WebhookEvent {
  return {
    tenantId: event.tenantId,
    type: 'conversation.credentials_stored',
    orderingKey: event.entity,
    timestampMs: event.acceptedAtMs,
    traceparent: event.traceparent,
    data: {
      conversationId: event.entity,
      customerExternalId: row.customerExternalId,
      streamId: row.streamId,
    },
  };
}
