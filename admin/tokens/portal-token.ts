import type { KeyRing } from '../../shared/keyring/keyring.ts';

/** What a portal token states. */
export interface PortalToken {
  readonly tenantId: string;
  /** The API key that created the token. */
  readonly apiKeyId: string;
  /** The SHA-256 of the secret of this key with which the token was created. */
  readonly secretSha256: Buffer;
  readonly scopes: readonly string[];
  readonly expiresAtMs: number;
}

const TEXT_LENGTH_MAX = 4096;
const TEXT = /^portal_([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]+)$/;
/**
 * Distinguishes tokens from all other values that the ring encrypts, and from tokens of later
 * releases with another content.
 */
const AAD = ['portal-token'];

/**
 * Returns the text of a token: its content, encrypted and authenticated by the key ring. The text is
 * ASCII without spaces.
 */
export function writePortalToken(keyRing: KeyRing, token: PortalToken): string {
  const content = { ...token, secretSha256: token.secretSha256.toString('base64url') };
  const { keyId, ciphertext } = keyRing.encrypt(Buffer.from(JSON.stringify(content)), AAD);
  return `portal_${keyId}.${ciphertext.toString('base64url')}`;
}

/**
 * Returns what a token states, whether it has expired or not. Returns undefined if {@link
 * writePortalToken} did not write exactly this text with a key of this ring.
 */
export function readPortalToken(keyRing: KeyRing, text: string): PortalToken | undefined {
  if (text.length > TEXT_LENGTH_MAX) return undefined;
  const [, keyId, encoded] = TEXT.exec(text) ?? [];
  if (keyId === undefined || encoded === undefined) return undefined;
  const ciphertext = Buffer.from(encoded, 'base64url');
  // Decoding ignores some bits of the last character.
  if (ciphertext.toString('base64url') !== encoded) return undefined;
  try {
    const content = JSON.parse(keyRing.decrypt(keyId, ciphertext, AAD).toString());
    return { ...content, secretSha256: Buffer.from(content.secretSha256, 'base64url') };
  } catch {
    return undefined;
  }
}
