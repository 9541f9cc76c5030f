import { createHash, randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;

/**
 * Returns a new secret of an API key and its SHA-256. The secret is shown once; only the SHA-256 is
 * stored.
 */
export function newApiKeySecret(): { readonly secret: string; readonly sha256: Buffer } {
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  return { secret, sha256: sha256Of(secret) };
}

export function sha256Of(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
