import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

const SECRET_BYTES = 32;
/**
 * The digest to compare with if there is no secret, so that the check takes the same time in all
 * cases.
 */
const NO_SECRET = Buffer.alloc(32);

/**
 * Returns a new secret of an API key and its SHA-256. The secret is shown once; only the SHA-256 is
 * stored.
 */
export function newApiKeySecret(): { readonly secret: string; readonly sha256: Buffer } {
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  return { secret, sha256: sha256Of(secret) };
}

export function sha256Of(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

/** The digests of a key's secrets. */
export interface SecretDigests {
  readonly secretSha256: Buffer;
  /** The secret before the last rotation. */
  readonly previousSecret: { readonly sha256: Buffer; readonly validUntilMs: number } | undefined;
}

/** Which of a key's secrets a caller has shown. */
export type ShownSecret = 'current' | 'previous';

/**
 * Compares the digest of a secret with all secrets of a key, in constant time. Returns which valid
 * secret it is; undefined if it is none, or if there is no key.
 */
export function verifySecret(
  given: Buffer,
  key: SecretDigests | undefined,
  nowMs: number,
): ShownSecret | undefined {
  const { sha256, validUntilMs } = key?.previousSecret ?? { sha256: NO_SECRET, validUntilMs: 0 };
  const isCurrent = timingSafeEqual(given, key?.secretSha256 ?? NO_SECRET);
  const isPrevious = timingSafeEqual(given, sha256);
  if (!key) return undefined;
  if (isCurrent) return 'current';
  return isPrevious && nowMs < validUntilMs ? 'previous' : undefined;
}
