import { randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;
/** Limits on the size of a secret in Standard Webhooks. */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;

/** Returns the bytes of a new signing secret. */
export function newWebhookSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** Returns a secret in the form for its owner: `whsec_` and base64 (Standard Webhooks 1.0). */
export function formatWebhookSecret(secret: Uint8Array): string {
  return `whsec_${Buffer.from(secret).toString('base64')}`;
}

/** Returns the bytes of a secret in that form; undefined if the text is not a secret. */
export function parseWebhookSecret(text: string): Buffer | undefined {
  const match = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text.trim());
  if (!match) return undefined;
  const secret = Buffer.from(match[1]!, 'base64');
  return secret.length >= SECRET_BYTES_MIN && secret.length <= SECRET_BYTES_MAX ? secret : undefined;
}
