import { webhookHeadersAad, webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { Reencrypt } from './encrypted-values.ts';

/** The encrypted values of an endpoint: the prefix of their columns, and their additional data. */
const VALUES = [
  { prefix: 'secret', aadOf: webhookSecretAad },
  { prefix: 'previous_secret', aadOf: webhookSecretAad },
  { prefix: 'headers', aadOf: webhookHeadersAad },
] as const;

/**
 * Reencrypts the secrets and custom headers of endpoints, one value per transaction, because
 * dispatchers lock these rows too.
 */
export async function reencryptWebhookSecrets(
  pool: Pool,
  { keyId }: { readonly keyId: string },
  reencrypt: Reencrypt,
): Promise<void> {
  for (const { prefix, aadOf } of VALUES) {
    const { rows } = await pool.query<{
      tenantId: string;
      endpointId: string;
      keyId: string;
      ciphertext: Buffer;
    }>(
      `select tenant_id as "tenantId", endpoint_id as "endpointId", ${prefix}_key_id as "keyId",
              ${prefix}_ciphertext as ciphertext
         from webhook_endpoints
        where state <> 'deleted' and ${prefix}_key_id <> $1
        order by tenant_id, endpoint_id`,
      [keyId],
    );
    for (const { tenantId, endpointId, ...value } of rows) {
      const encrypted = reencrypt({ of: 'webhook secrets', ...value, aad: aadOf(tenantId, endpointId) });
      if (!encrypted) continue;
      // Updates only a value that has not changed since it was read.
      await pool.query(
        `update webhook_endpoints set ${prefix}_key_id = $3, ${prefix}_ciphertext = $4
          where tenant_id = $1 and endpoint_id = $2 and ${prefix}_ciphertext = $5`,
        [tenantId, endpointId, encrypted.keyId, encrypted.ciphertext, value.ciphertext],
      );
    }
  }
}
