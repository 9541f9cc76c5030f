import type { Encrypted, KeyRing } from '../keyring/keyring.ts';
import { webhookHeadersAad, webhookSecretAad } from '../keyring/webhook-secret-aad.ts';
import type { EncryptedEndpoint } from '../postgres/encrypted-endpoint.ts';
import type { WebhookHeaders } from './endpoint-headers.ts';

export interface OutgoingEndpoint {
  /** The newest secret first. */
  readonly secrets: readonly Uint8Array[];
  readonly headers: WebhookHeaders;
}

const NO_HEADERS: WebhookHeaders = {};

/**
 * Decrypts what an endpoint's webhooks are signed and sent with now; undefined if the endpoint is
 * deleted. Throws AppError `KEY_LOST` or `CIPHERTEXT_INVALID`.
 */
export function outgoingEndpoint(
  keyRing: KeyRing,
  { tenantId, endpointId, secret, previousSecret, headers }: EncryptedEndpoint,
  nowMs: number,
): OutgoingEndpoint | undefined {
  if (secret === null) return undefined;
  const decrypt = ({ keyId, ciphertext }: Encrypted, aad: readonly string[]) =>
    keyRing.decrypt(keyId, ciphertext, aad);
  const secretAad = webhookSecretAad(tenantId, endpointId);
  const isOverlap = previousSecret !== null && nowMs < previousSecret.untilMs;
  const headersAad = webhookHeadersAad(tenantId, endpointId);
  return {
    secrets: [secret, ...(isOverlap ? [previousSecret] : [])].map((one) => decrypt(one, secretAad)),
    headers: headers === null ? NO_HEADERS : JSON.parse(decrypt(headers, headersAad).toString()),
  };
}
