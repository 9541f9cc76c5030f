import { errorCode } from './errors.ts';
import type { KeyRing } from './keyring.ts';

/** A value that is stored, and what it is one of, in words. */
interface StoredValue {
  readonly of: string;
  readonly keyId: string;
  readonly ciphertext: Uint8Array;
  readonly aad: readonly string[];
}

/** What the ring cannot read of these, a sentence each. */
export function keyRingProblems(keyRing: KeyRing, values: readonly StoredValue[]): string[] {
  return values.flatMap(({ of, keyId, ciphertext, aad }) => {
    try {
      keyRing.decrypt(keyId, ciphertext, aad);
      return [];
    } catch (error) {
      return errorCode(error) === 'KEY_LOST'
        ? [`SLUICE_CREDENTIALS_KEYS has no key ${keyId}, which stored ${of} are encrypted with`]
        : [`the key ${keyId} of SLUICE_CREDENTIALS_KEYS is not the one that stored ${of} are encrypted with`];
    }
  });
}
