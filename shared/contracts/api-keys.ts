import type { z } from 'zod';
import type { ErrorDetail } from './errors.ts';
import { arrayOf, int32, objectOf, oneOf, stringField, timestampField } from './fields.ts';
import type { JsonObject } from './json.ts';
import { validate } from './parsed.ts';
import { EVERY_SCOPE, SCOPES } from './scopes.ts';
import { parseTimestampNs } from './timestamps.ts';

/** What a key is called, for people. */
export const keyNameField = stringField({ lengthMax: 100, notBlank: true, noControlCharacters: true });
export const KEY_RATE_MAX = 1_000_000;
/** Longest time for which two secrets of a key are valid, and the usual one. */
export const OVERLAP_SECONDS_MAX = 90 * 86_400;
export const OVERLAP_SECONDS = 86_400;

/** A request for a key; that its end is to come is checked behind it. */
export const keySchema = objectOf({
  name: keyNameField.nullish().describe('What the key is called, for people.'),
  scopes: arrayOf(oneOf([EVERY_SCOPE, ...SCOPES]), { ifEmpty: 'must have at least one entry' }).describe(
    'What it may do; `*` is everything, scopes of later releases included. None that your key lacks.',
  ),
  expiresAt: timestampField
    .nullish()
    .describe(
      'When it ends by itself, a time to come; omitted: never. Not later than your key, where that one ends.',
    ),
  rate: int32(1, KEY_RATE_MAX)
    .nullish()
    .describe(
      "Requests a second of each operation with this key; omitted: the tenant's rate alone. Not above that of your key, " +
        'where that one has one.',
    ),
});

export const rotationSchema = objectOf({
  overlapSeconds: int32(0, OVERLAP_SECONDS_MAX)
    .nullish()
    .describe(
      `For how many seconds more the secret of before is valid, if the key is; omitted: ${OVERLAP_SECONDS} (a day); 0 ends ` +
        'all secrets of before at once.',
    ),
});

/** What a new key is to be. */
export interface KeyRequest {
  readonly name: string | null;
  readonly scopes: readonly string[];
  /** Null: never. */
  readonly expiresAtMs: number | null;
  /** Requests a second of this key alone; null leaves it to the tenant's. */
  readonly rate: number | null;
}

type Read<T> =
  | { readonly ok: true; readonly request: T }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] };

/** Reads the body of a request that creates a key. */
export function readKeyRequest(body: JsonObject, nowMs: number): Read<KeyRequest> {
  const result = validate(body, keySchema);
  if (!result.ok) return result;
  const { name = null, scopes, expiresAt, rate = null } = result.value as z.output<typeof keySchema>;
  const expiresAtMs =
    typeof expiresAt === 'string' ? Number(parseTimestampNs(expiresAt)! / 1_000_000n) : null;
  if (expiresAtMs !== null && expiresAtMs <= nowMs) {
    return { ok: false, details: [{ path: 'expiresAt', message: 'must be in the future' }] };
  }
  return { ok: true, request: { name, scopes: [...new Set(scopes)], expiresAtMs, rate } };
}

/** Reads the body of a request that rotates a key: for how many milliseconds the secret of before stays valid. */
export function readRotationRequest(body: JsonObject): Read<{ readonly overlapMs: number }> {
  const result = validate(body, rotationSchema);
  if (!result.ok) return result;
  const { overlapSeconds } = result.value as z.output<typeof rotationSchema>;
  return { ok: true, request: { overlapMs: (overlapSeconds ?? OVERLAP_SECONDS) * 1000 } };
}
