import { errorCode } from '../errors.ts';
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
  return values.flatMap((value) => {
    const failure = failureOf(keyRing, value);
    if (failure === undefined) return [];
    return failure === 'KEY_LOST'
      ? [`${keyRing.source} has no key ${value.keyId}, which stored ${value.of} are encrypted with`]
      : [wrongKey(keyRing, value)];
  });
}

/**
 * Keys of the ring that none of these values of theirs can be read with: other bytes under the same id. One value that
 * can be read clears its key, since another one may have been damaged. Keys that the ring lacks are not among them.
 */
export function wrongKeys(
  keyRing: KeyRing,
  values: readonly StoredValue[],
): { readonly keyId: string; readonly problem: string }[] {
  const looked = values.map((value) => ({ value, failure: failureOf(keyRing, value) }));
  return keyRing.keyIds.flatMap((keyId) => {
    const own = looked.filter(({ value }) => value.keyId === keyId);
    return own.length > 0 && own.every(({ failure }) => failure !== undefined)
      ? [{ keyId, problem: wrongKey(keyRing, own[0]!.value) }]
      : [];
  });
}

function failureOf(keyRing: KeyRing, { keyId, ciphertext, aad }: StoredValue): string | undefined {
  try {
    keyRing.decrypt(keyId, ciphertext, aad);
    return undefined;
  } catch (error) {
    return errorCode(error) ?? 'UNKNOWN';
  }
}

function wrongKey({ source }: KeyRing, { of, keyId }: StoredValue): string {
  return `the key ${keyId} of ${source} is not the one that stored ${of} are encrypted with`;
}
