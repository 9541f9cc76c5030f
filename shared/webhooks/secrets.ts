import { randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;

/** The bytes of a new signing secret. */
export function newWebhookSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** A secret as its owner sees it: `whsec_` and base64 (Standard Webhooks 1.0). */
export function formatWebhookSecret(secret: Uint8Array): string {
  return `whsec_${Buffer.from(secret).toString('base64')}`;
}

/** What an endpoint's stored secret is bound to. The first string keeps it apart from everything else the ring encrypts. */
export function webhookSecretAad(tenantId: string, endpointId: string): string[] {
  return ['webhook-secret', tenantId, endpointId];
}
