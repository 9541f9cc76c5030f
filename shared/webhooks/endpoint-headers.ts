import type { KeyRing } from '../keyring/keyring.ts';
import { webhookHeadersAad } from '../keyring/webhook-secret-aad.ts';
import type { EncryptedHeaders, EndpointId } from '../postgres/webhook-endpoints.ts';

export type WebhookHeaders = Readonly<Record<string, string>>;

/** Encrypts the custom headers of an endpoint, which often contain a secret. */
export function encryptHeaders(
  keyRing: KeyRing,
  { tenantId, endpointId }: EndpointId,
  headers: WebhookHeaders | null,
): EncryptedHeaders | null {
  if (headers === null) return null;
  const names = Object.keys(headers);
  const sent = Object.fromEntries(names.map((name) => [name, headers[name]]));
  const encrypted = keyRing.encrypt(
    Buffer.from(JSON.stringify(sent)),
    webhookHeadersAad(tenantId, endpointId),
  );
  return { names, ...encrypted };
}
