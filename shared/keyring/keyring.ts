import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { AppError } from '../errors.ts';

/**
 * Encrypts with AES-256-GCM under a ring of named keys. The first key encrypts; all keys decrypt. A
 * new key can be put first while values of older keys stay readable.
 */
export interface KeyRing {
  /** The setting or file that contains the ring, for messages. */
  readonly source: string;
  /** Ids of the ring's keys; the first key encrypts. */
  readonly keyIds: readonly [string, ...string[]];
  /**
   * Encrypts under the first key. `aad` names the owner of the value (tenant, conversation …);
   * decrypting needs the same strings.
   */
  encrypt(plain: Uint8Array, aad: readonly string[]): Encrypted;
  /**
   * Throws AppError `KEY_LOST` when the ring has no key of that id, and `CIPHERTEXT_INVALID` when
   * the ciphertext was changed or has another owner. Neither is retryable.
   */
  decrypt(keyId: string, ciphertext: Uint8Array, aad: readonly string[]): Buffer;
}

export interface Encrypted {
  readonly keyId: string;
  /** 12 bytes nonce, the encrypted bytes, 16 bytes tag. */
  readonly ciphertext: Buffer;
}

const ALGORITHM = 'aes-256-gcm';
const KEY_BYTES = 32;
/** Random nonces of 96 bits are safe for 2^32 encryptions per key (NIST SP 800-38D, 8.3). */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ENTRY = /^([A-Za-z0-9_-]{1,64}):([A-Za-z0-9+/]{43}=)$/;

/**
 * Reads `id:base64(32 bytes)` entries separated by commas. Throws AppError `KEY_RING_INVALID`,
 * which names the source and never repeats a key.
 */
export function createKeyRing(spec: string, source = 'SLUICE_CREDENTIALS_KEYS'): KeyRing {
  const keys = readKeys(spec, source);
  const [firstId, firstKey] = keys.entries().next().value!;
  return {
    source,
    keyIds: [...keys.keys()] as [string, ...string[]],

    encrypt(plain, aad) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, firstKey, nonce).setAAD(joinAad(aad));
      const body = [cipher.update(plain), cipher.final()];
      return { keyId: firstId, ciphertext: Buffer.concat([nonce, ...body, cipher.getAuthTag()]) };
    },

    decrypt(keyId, ciphertext, aad) {
      const key = keys.get(keyId);
      if (!key) throw new AppError('KEY_LOST', `${source} no longer has the key ${keyId}`);
      if (ciphertext.length < NONCE_BYTES + TAG_BYTES) throw invalidCiphertext();
      const tagAt = ciphertext.length - TAG_BYTES;
      const decipher = createDecipheriv(ALGORITHM, key, ciphertext.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(joinAad(aad)).setAuthTag(ciphertext.subarray(tagAt));
      try {
        return Buffer.concat([decipher.update(ciphertext.subarray(NONCE_BYTES, tagAt)), decipher.final()]);
      } catch {
        throw invalidCiphertext();
      }
    },
  };
}

/** Returns the text of a ring with one new random key, as {@link createKeyRing} reads it. */
export function generateKeySpec(): string {
  return `k${randomBytes(4).toString('hex')}:${randomBytes(KEY_BYTES).toString('base64')}`;
}

function readKeys(spec: string, source: string): Map<string, Buffer> {
  const keys = new Map<string, Buffer>();
  for (const entry of spec.split(',')) {
    const match = ENTRY.exec(entry.trim());
    const key = Buffer.from(match?.[2] ?? '', 'base64');
    if (!match || key.length !== KEY_BYTES) throw invalidRing(source, 'has an entry that is not id:key');
    if (keys.has(match[1]!)) throw invalidRing(source, `names the key ${match[1]} twice`);
    keys.set(match[1]!, key);
  }
  return keys;
}

function invalidRing(source: string, problem: string): AppError {
  return new AppError(
    'KEY_RING_INVALID',
    `${source} ${problem}; it must be id:key entries separated by commas, each key 32 bytes in ` +
      'base64, for example 2026a:THE_OUTPUT_OF_openssl_rand_-base64_32',
  );
}

function invalidCiphertext(): AppError {
  return new AppError('CIPHERTEXT_INVALID', 'an encrypted value was changed, or belongs to another owner');
}

/** Joins strings, each after its length, so that ['a', 'bc'] and ['ab', 'c'] differ. */
function joinAad(parts: readonly string[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}
