import { randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;

/** Returns the bytes of a new signing secret. */
export function newWebhookSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** Returns a secret in the form for its owner: `whsec_` and base64 (Standard Webhooks 1.0). */
export function formatWebhookSecret(secret: Uint8Array): string {
  return `whsec_${Buffer.from(secret).toString('base64')}`;
}
