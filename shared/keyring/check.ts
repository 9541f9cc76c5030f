import { errorCode } from '../errors.ts';
import type { KeyRing } from './keyring.ts';

/** A stored value; `of` names its kind, for messages. */
interface StoredValue {
  readonly of: string;
  readonly keyId: string;
  readonly ciphertext: Uint8Array;
  readonly aad: readonly string[];
}

/** Returns one sentence per value that the ring cannot read. */
export function keyRingProblems(keyRing: KeyRing, values: readonly StoredValue[]): string[] {
  return values.flatMap((value) => {
    const failure = failureOf(keyRing, value);
    if (failure === undefined) return [];
    return failure === 'KEY_LOST'
      ? [`${keyRing.source} has no key ${value.keyId}, which encrypted stored ${value.of}`]
      : [wrongKey(keyRing, value)];
  });
}

/**
 * Returns the ids of keys that differ from the keys with which these values were encrypted. A key
 * is correct if one of its values can be decrypted, because other values may be damaged. Keys that
 * the ring lacks are not reported.
 */
export function listWrongKeys(
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
  return `the key ${keyId} of ${source} differs from the key that encrypted stored ${of}`;
}
