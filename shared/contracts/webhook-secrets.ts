/** Limits on the size of a secret in Standard Webhooks. */
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;

/** The form of a secret, in words. */
export const SECRET_TEXT = `whsec_ and the base64 of ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes`;

/**
 * Returns the bytes of a signing secret; undefined if the text is not a secret. Decoding skips what does
 * not belong to whole bytes, so text that was cut off or mistyped is refused: a receiver might decode it
 * in another way.
 */
export function parseWebhookSecret(text: string): Buffer | undefined {
  const match = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text.trim());
  if (!match) return undefined;
  const secret = Buffer.from(match[1]!, 'base64');
  const encoded = secret.toString('base64');
  if (![encoded, encoded.replace(/=+$/, '')].includes(match[1]!)) return undefined;
  return secret.length >= SECRET_BYTES_MIN && secret.length <= SECRET_BYTES_MAX ? secret : undefined;
}
