import type { Encrypted } from '../../shared/keyring/keyring.ts';
import type { EncryptedSample } from '../../shared/postgres/encrypted-samples.ts';
import type { Pool, Queryable } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';
import { epochMs, toDate } from '../../shared/postgres/times.ts';

/** The number of values of one type that a key encrypted. */
export interface EncryptedCount {
  readonly of: EncryptedSample['of'];
  readonly keyId: string;
  readonly count: number;
}

/** Reencrypts a value; returns undefined if the value cannot be decrypted. */
export type Reencrypt = (value: EncryptedSample) => Encrypted | undefined;

/** A position in the walk over the stored credentials. */
export interface ScanPosition {
  readonly expiresAtMs: number;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly eventId: string;
}

/**
 * Counts encrypted values by key: credentials that are not erased, credentials of dead letters, and
 * secrets and custom headers of endpoints that are not deleted.
 */
export async function countEncrypted(db: Queryable): Promise<EncryptedCount[]> {
  const { rows } = await db.query<EncryptedCount>(
    `select 'credentials' as of, key_id as "keyId", count(*)::integer as count
       from credentials where ciphertext is not null group by key_id
     union all
     select 'dead letters', key_id, count(*)::integer
       from dead_letters where key_id is not null group by key_id
     union all
     select 'webhook secrets', key_id, count(*)::integer
       from (select secret_key_id as key_id from webhook_endpoints where state <> 'deleted'
             union all
             select previous_secret_key_id from webhook_endpoints
              where state <> 'deleted' and previous_secret_key_id is not null
             union all
             select headers_key_id from webhook_endpoints
              where state <> 'deleted' and headers_key_id is not null) as secrets
      group by key_id
     order by "keyId", of`,
  );
  return rows;
}

/**
 * Returns one value of credentials per key that encrypted any. Reads the whole table. Each
 * statement rejects after `deadlineMs`.
 */
export async function sampleCredentials(pool: Pool, deadlineMs: number): Promise<EncryptedSample[]> {
  const keys = await queryWithDeadline<{ keyId: string }>(
    pool,
    deadlineMs,
    `select distinct key_id as "keyId" from credentials where ciphertext is not null order by key_id`,
    [],
  );
  const samples: EncryptedSample[] = [];
  for (const { keyId } of keys) {
    const rows = await queryWithDeadline<Pick<CredentialsRow, 'tenantId' | 'conversationId' | 'ciphertext'>>(
      pool,
      deadlineMs,
      `select tenant_id as "tenantId", conversation_id as "conversationId", ciphertext
         from credentials
        where key_id = $1 and ciphertext is not null
        limit 1`,
      [keyId],
    );
    for (const row of rows) samples.push(toSample({ ...row, keyId }));
  }
  return samples;
}

interface CredentialsRow extends ScanPosition {
  readonly keyId: string;
  readonly ciphertext: Buffer;
}

function toSample(
  row: Pick<CredentialsRow, 'tenantId' | 'conversationId' | 'keyId' | 'ciphertext'>,
): EncryptedSample {
  const { tenantId, conversationId, keyId, ciphertext } = row;
  return { of: 'credentials', keyId, ciphertext, aad: [tenantId, conversationId] };
}

/**
 * Reencrypts up to `rowsMax` credentials after `after`, in the order of their expiry. Skips values
 * that the key `keyId` encrypted. Does not change values that were erased or reencrypted since they
 * were read. Returns the position for the next step; undefined at the end.
 */
export async function reencryptCredentials(
  pool: Pool,
  step: { readonly keyId: string; readonly after: ScanPosition | undefined; readonly rowsMax: number },
  reencrypt: Reencrypt,
): Promise<ScanPosition | undefined> {
  const { keyId, after, rowsMax } = step;
  const { rows } = await pool.query<CredentialsRow>(
    `select ${epochMs('expires_at')} as "expiresAtMs", tenant_id as "tenantId", conversation_id as "conversationId",
            event_id as "eventId", key_id as "keyId", ciphertext
       from credentials
      where ciphertext is not null and key_id <> $1
        and ($2::timestamptz is null
             or (expires_at, tenant_id, conversation_id, event_id) > ($2::timestamptz, $3::text, $4::text, $5::text))
      order by expires_at, tenant_id, conversation_id, event_id
      limit $6`,
    [keyId, toDate(after?.expiresAtMs), after?.tenantId, after?.conversationId, after?.eventId, rowsMax],
  );
  const changed = rows.flatMap((row) => {
    const encrypted = reencrypt(toSample(row));
    return encrypted ? [{ row, encrypted }] : [];
  });
  if (changed.length > 0) {
    // Updates only values that have not changed since they were read.
    await pool.query(
      `update credentials c set key_id = sent.key_id, ciphertext = sent.ciphertext
         from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[])
              as sent (tenant_id, conversation_id, event_id, key_id, ciphertext, before)
        where c.tenant_id = sent.tenant_id and c.conversation_id = sent.conversation_id
          and c.event_id = sent.event_id and c.ciphertext = sent.before`,
      [
        changed.map(({ row }) => row.tenantId),
        changed.map(({ row }) => row.conversationId),
        changed.map(({ row }) => row.eventId),
        changed.map(({ encrypted }) => encrypted.keyId),
        changed.map(({ encrypted }) => encrypted.ciphertext),
        changed.map(({ row }) => row.ciphertext),
      ],
    );
  }
  return rows.at(-1);
}
