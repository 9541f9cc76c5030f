import type { Encrypted } from '../../shared/keyring/keyring.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { epochMs, toMs } from '../../shared/postgres/epoch-ms.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import type { EncryptedSample } from '../../shared/postgres/sample-encrypted.ts';

/** The number of values of one type that a key encrypted. */
export interface EncryptedCount {
  readonly of: EncryptedSample['of'];
  readonly keyId: string;
  readonly count: number;
}

/** Reencrypts a value; returns undefined if it cannot be decrypted. */
export type Reencrypt = (value: EncryptedSample) => Encrypted | undefined;

/** A position in the walk over the stored credentials. */
export interface WalkPlace {
  readonly expiresAtMs: number;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly eventId: string;
}

/**
 * Counts encrypted values by key: credentials that are not erased, those of dead letters, and secrets of endpoints that are
 * not deleted.
 */
export async function countEncrypted(db: Queryable): Promise<EncryptedCount[]> {
  const { rows } = await db.query<{ of: EncryptedSample['of']; key_id: string; count: bigint }>(
    `select 'credentials' as of, key_id, count(*) as count
       from credentials where ciphertext is not null group by key_id
     union all
     select 'dead letters', key_id, count(*)
       from dead_letters where key_id is not null group by key_id
     union all
     select 'webhook secrets', secret_key_id, count(*)
       from webhook_endpoints where state <> 'deleted' group by secret_key_id
     order by key_id, of`,
  );
  return rows.map(({ of, key_id: keyId, count }) => ({ of, keyId, count: Number(count) }));
}

interface CredentialsRow {
  readonly expires_at_ms: bigint;
  readonly tenant_id: string;
  readonly conversation_id: string;
  readonly event_id: string;
  readonly key_id: string;
  readonly ciphertext: Buffer;
}

/**
 * Reencrypts, in one transaction, up to `rowsMax` credentials that another key than `keyId` encrypted, after `after` in the
 * order of their expiry. Returns the position for the next step; undefined at the end. Skips locked rows, which another
 * process is erasing or reencrypting.
 */
export async function reencryptCredentials(
  pool: Pool,
  step: { readonly keyId: string; readonly after: WalkPlace | undefined; readonly rowsMax: number },
  reencrypt: Reencrypt,
): Promise<WalkPlace | undefined> {
  const { keyId, after, rowsMax } = step;
  return await inTransaction(pool, async (client) => {
    const { rows } = await client.query<CredentialsRow>(
      `select ${epochMs('expires_at')} as expires_at_ms, tenant_id, conversation_id, event_id, key_id, ciphertext
         from credentials
        where ciphertext is not null and key_id <> $1
          and ($2::timestamptz is null
               or (expires_at, tenant_id, conversation_id, event_id) > ($2::timestamptz, $3::text, $4::text, $5::text))
        order by expires_at, tenant_id, conversation_id, event_id
        limit $6 for update skip locked`,
      [
        keyId,
        after && new Date(after.expiresAtMs),
        after?.tenantId,
        after?.conversationId,
        after?.eventId,
        rowsMax,
      ],
    );
    const changed = rows.flatMap((row) => {
      const aad = [row.tenant_id, row.conversation_id];
      const value = { of: 'credentials' as const, keyId: row.key_id, ciphertext: row.ciphertext, aad };
      const encrypted = reencrypt(value);
      return encrypted ? [{ row, encrypted }] : [];
    });
    if (changed.length > 0) {
      await client.query(
        `update credentials c set key_id = sent.key_id, ciphertext = sent.ciphertext
           from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[])
                as sent (tenant_id, conversation_id, event_id, key_id, ciphertext)
          where c.tenant_id = sent.tenant_id and c.conversation_id = sent.conversation_id
            and c.event_id = sent.event_id`,
        [
          changed.map(({ row }) => row.tenant_id),
          changed.map(({ row }) => row.conversation_id),
          changed.map(({ row }) => row.event_id),
          changed.map(({ encrypted }) => encrypted.keyId),
          changed.map(({ encrypted }) => encrypted.ciphertext),
        ],
      );
    }
    const last = rows.at(-1);
    return (
      last && {
        expiresAtMs: toMs(last.expires_at_ms),
        tenantId: last.tenant_id,
        conversationId: last.conversation_id,
        eventId: last.event_id,
      }
    );
  });
}

/** Reencrypts the secrets of endpoints, one at a time, as dispatchers lock these rows too. */
export async function reencryptWebhookSecrets(
  pool: Pool,
  { keyId }: { readonly keyId: string },
  reencrypt: Reencrypt,
): Promise<void> {
  const { rows } = await pool.query<{
    tenant_id: string;
    endpoint_id: string;
    secret_key_id: string;
    secret_ciphertext: Buffer;
  }>(
    `select tenant_id, endpoint_id, secret_key_id, secret_ciphertext
       from webhook_endpoints
      where state <> 'deleted' and secret_key_id <> $1
      order by tenant_id, endpoint_id`,
    [keyId],
  );
  for (const row of rows) {
    const aad = webhookSecretAad(row.tenant_id, row.endpoint_id);
    const value = { keyId: row.secret_key_id, ciphertext: row.secret_ciphertext, aad };
    const encrypted = reencrypt({ of: 'webhook secrets', ...value });
    if (!encrypted) continue;
    // Only if the value is still the one that was read: it may have been deleted or reencrypted in the meantime.
    await pool.query(
      `update webhook_endpoints set secret_key_id = $3, secret_ciphertext = $4
        where tenant_id = $1 and endpoint_id = $2 and secret_ciphertext = $5`,
      [row.tenant_id, row.endpoint_id, encrypted.keyId, encrypted.ciphertext, row.secret_ciphertext],
    );
  }
}
