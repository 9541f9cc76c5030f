import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { byTenant } from './by-tenant.ts';
import { lateReadColumns, type ReadAt } from './read-positions.ts';

export interface CredentialsRow {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly eventId: string;
  readonly customerExternalId: string;
  readonly streamId: string | null;
  readonly keyId: string;
  /**
   * The ciphertext; null if the credentials had expired, or were erased, before they were stored.
   */
  readonly ciphertext: Buffer | null;
  readonly acceptedAtMs: number;
  readonly expiresAtMs: number;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  /** Where the submission was read, if that is not its first position. */
  readonly lateRead?: ReadAt | undefined;
  readonly requestId: string;
}

/** Stores submissions of credentials (sorted by tenant, conversation and event). */
export async function insertCredentials(
  db: Queryable,
  rows: readonly CredentialsRow[],
  nowMs: number,
): Promise<void> {
  const columns: Column<CredentialsRow>[] = [
    { name: 'tenant_id', type: 'text', value: (row) => row.tenantId },
    { name: 'conversation_id', type: 'text', value: (row) => row.conversationId },
    { name: 'event_id', type: 'text', value: (row) => row.eventId },
    { name: 'customer_external_id', type: 'text', value: (row) => row.customerExternalId },
    { name: 'stream_id', type: 'text', value: (row) => row.streamId },
    { name: 'key_id', type: 'text', value: (row) => row.keyId },
    { name: 'ciphertext', type: 'bytea', value: (row) => row.ciphertext },
    { name: 'accepted_at', type: 'timestamptz', value: (row) => row.acceptedAtMs },
    { name: 'expires_at', type: 'timestamptz', value: (row) => row.expiresAtMs },
    { name: 'generation', type: 'integer', value: (row) => row.generation },
    { name: 'partition', type: 'integer', value: (row) => row.partition },
    { name: 'offset', type: 'bigint', value: (row) => row.offset },
    { name: 'request_id', type: 'text', value: (row) => row.requestId },
    ...lateReadColumns(rows, (row) => row.lateRead),
    { name: 'stored_at', type: 'timestamptz', same: nowMs },
  ];
  await insertRows(db, 'credentials', columns, rows);
}

/** Erases up to `rowsMax` expired ciphertexts, and resolves with their number. The rows stay. */
export async function eraseExpiredCredentials(
  db: Queryable,
  nowMs: number,
  rowsMax: number,
): Promise<number> {
  const { rows } = await db.query<Pick<CredentialsRow, 'tenantId' | 'conversationId' | 'eventId'>>(
    `select tenant_id as "tenantId", conversation_id as "conversationId", event_id as "eventId"
       from credentials
      where expires_at <= $1 and ciphertext is not null
      order by expires_at
      limit $2`,
    [new Date(nowMs), rowsMax],
  );
  const erased = await byTenant(db, rows, async (tenantId, ofTenant) => {
    const result = await db.query(
      `update credentials set ciphertext = null
        where tenant_id = $1 and (conversation_id, event_id) in (
          select c.conversation_id, c.event_id
            from unnest($2::text[], $3::text[]) as wanted (conversation_id, event_id)
            join credentials c
              on c.tenant_id = $1 and c.conversation_id = wanted.conversation_id and c.event_id = wanted.event_id
           where c.ciphertext is not null
             for update of c skip locked
        )`,
      [
        tenantId,
        ofTenant.map(({ conversationId }) => conversationId),
        ofTenant.map(({ eventId }) => eventId),
      ],
    );
    return [result.rowCount ?? 0];
  });
  return erased.reduce((sum, count) => sum + count, 0);
}
