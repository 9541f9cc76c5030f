import type { Encrypted } from '../keyring/keyring.ts';
import { epochMs } from './times.ts';
import type { EndpointId } from './webhook-endpoints.ts';

/** What an endpoint's webhooks are signed and sent with, encrypted with the key ring. */
export interface EncryptedEndpoint extends EndpointId {
  /** Null for a deleted endpoint. */
  readonly secret: Encrypted | null;
  /** The secret before the last rotation. */
  readonly previousSecret: (Encrypted & { readonly untilMs: number }) | null;
  /** A JSON object of the custom headers. */
  readonly headers: Encrypted | null;
}

/** A row with {@link ENCRYPTED_COLUMNS}. */
export interface EncryptedRow extends EndpointId {
  readonly keyId: string | null;
  readonly ciphertext: Buffer | null;
  readonly previousKeyId: string | null;
  readonly previousCiphertext: Buffer | null;
  readonly previousUntilMs: number | null;
  readonly headersKeyId: string | null;
  readonly headersCiphertext: Buffer | null;
}

export const ENCRYPTED_COLUMNS = `tenant_id as "tenantId", endpoint_id as "endpointId", secret_key_id as "keyId",
  secret_ciphertext as ciphertext, previous_secret_key_id as "previousKeyId",
  previous_secret_ciphertext as "previousCiphertext", ${epochMs('previous_secret_until')} as "previousUntilMs",
  headers_key_id as "headersKeyId", headers_ciphertext as "headersCiphertext"`;

export function encryptedEndpoint(row: EncryptedRow): EncryptedEndpoint {
  const previous = encryptedOf(row.previousKeyId, row.previousCiphertext);
  const untilMs = row.previousUntilMs;
  return {
    tenantId: row.tenantId,
    endpointId: row.endpointId,
    secret: encryptedOf(row.keyId, row.ciphertext),
    previousSecret: previous && untilMs !== null ? { ...previous, untilMs } : null,
    headers: encryptedOf(row.headersKeyId, row.headersCiphertext),
  };
}

function encryptedOf(keyId: string | null, ciphertext: Buffer | null): Encrypted | null {
  return keyId !== null && ciphertext !== null ? { keyId, ciphertext } : null;
}
