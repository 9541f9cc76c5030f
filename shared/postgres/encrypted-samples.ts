import { webhookHeadersAad, webhookSecretAad } from '../keyring/webhook-secret-aad.ts';
import type { Pool } from './pool.ts';
import { queryWithDeadline } from './query-with-deadline.ts';

/** One of the values that a key encrypted, to check whether a ring can decrypt it. */
export interface EncryptedSample {
  /** The kind of the value, for messages. */
  readonly of: 'webhook secrets' | 'credentials' | 'dead letters';
  readonly keyId: string;
  readonly ciphertext: Buffer;
  /** The additional data of the value. */
  readonly aad: readonly string[];
}

interface Row {
  readonly keyId: string;
  readonly tenantId: string;
  readonly id: string;
  readonly ciphertext: Buffer;
}

/**
 * Returns one value per key that encrypted secrets or custom headers of webhook endpoints. Rejects
 * after `deadlineMs`.
 */
export async function sampleWebhookSecrets(pool: Pool, deadlineMs: number): Promise<EncryptedSample[]> {
  const rows = await queryWithDeadline<Row & { isHeaders: boolean }>(
    pool,
    deadlineMs,
    `select distinct on (e.key_id)
            e.key_id as "keyId", e.tenant_id as "tenantId", e.endpoint_id as id, e.ciphertext, e.is_headers as "isHeaders"
       from (select tenant_id, endpoint_id, secret_key_id as key_id, secret_ciphertext as ciphertext, false as is_headers
               from webhook_endpoints where state <> 'deleted'
             union all
             select tenant_id, endpoint_id, previous_secret_key_id, previous_secret_ciphertext, false
               from webhook_endpoints where state <> 'deleted' and previous_secret_ciphertext is not null
             union all
             select tenant_id, endpoint_id, headers_key_id, headers_ciphertext, true
               from webhook_endpoints where state <> 'deleted' and headers_ciphertext is not null) as e
      order by e.key_id, e.tenant_id, e.endpoint_id`,
    [],
  );
  return rows.map(({ keyId, tenantId, id, ciphertext, isHeaders }) => ({
    of: 'webhook secrets',
    keyId,
    ciphertext,
    aad: isHeaders ? webhookHeadersAad(tenantId, id) : webhookSecretAad(tenantId, id),
  }));
}

/**
 * Returns one value per key among the newest 1000 credentials. Takes little time with any number of
 * credentials. Rejects after `deadlineMs`.
 */
export async function sampleNewestCredentials(pool: Pool, deadlineMs: number): Promise<EncryptedSample[]> {
  const rows = await queryWithDeadline<Row>(
    pool,
    deadlineMs,
    `select distinct on (key_id) key_id as "keyId", tenant_id as "tenantId", conversation_id as id, ciphertext
       from (select key_id, tenant_id, conversation_id, ciphertext, expires_at
               from credentials
              where ciphertext is not null
              order by expires_at desc
              limit 1000) newest
      order by key_id, expires_at desc`,
    [],
  );
  return rows.map(toCredentialsSample);
}

function toCredentialsSample({ keyId, tenantId, id, ciphertext }: Row): EncryptedSample {
  return { of: 'credentials', keyId, ciphertext, aad: [tenantId, id] };
}
