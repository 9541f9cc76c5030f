import type { z } from 'zod';
import type { ErrorDetail } from './errors.ts';
import { arrayOf, int32, objectOf, oneOf, stringField, timestampField } from './fields.ts';
import type { JsonObject } from './json.ts';
import { validateKnown } from './known-members.ts';
import { EVERY_SCOPE, SCOPES } from './scopes.ts';
import { parseTimestampNs } from './timestamps.ts';

/** A display name of an API key. */
export const keyNameField = stringField({ lengthMax: 100, notBlank: true, noControlCharacters: true });
export const KEY_RATE_MAX = 1_000_000;
/** The maximum and the default time for which two secrets of a key are valid. */
export const OVERLAP_SECONDS_MAX = 90 * 86_400;
export const OVERLAP_SECONDS = 86_400;

/**
 * A request for a key. Whether its expiry is in the future is checked by {@link readKeyRequest}.
 */
export const keySchema = objectOf({
  name: keyNameField.nullish().describe('A display name.'),
  scopes: arrayOf(oneOf([EVERY_SCOPE, ...SCOPES]), { ifEmpty: 'must have at least one entry' }).describe(
    'Scopes of the key; `*` is everything, including scopes of later releases. A key can grant only scopes that it has.',
  ),
  expiresAt: timestampField
    .nullish()
    .describe(
      'When the key expires, a time in the future; omitted: never. Not later than your own key expires.',
    ),
  rate: int32(1, KEY_RATE_MAX)
    .nullish()
    .describe(
      "Requests per second of each operation with this key; omitted: only the tenant's rate applies. Not above your own " +
        "key's rate, if it has one.",
    ),
});

export const rotationSchema = objectOf({
  overlapSeconds: int32(0, OVERLAP_SECONDS_MAX)
    .nullish()
    .describe(
      `Seconds for which the previous secret stays valid, if the key does; omitted: ${OVERLAP_SECONDS} (a day); 0 ends ` +
        'all previous secrets immediately.',
    ),
});

/** The properties of a new API key. */
export interface KeyRequest {
  readonly name: string | null;
  readonly scopes: readonly string[];
  /** Null: the key never expires. */
  readonly expiresAtMs: number | null;
  /** Requests per second of this key; null: only the tenant's rate applies. */
  readonly rate: number | null;
}

type Read<T> =
  | { readonly ok: true; readonly request: T }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] };

/** Reads the body of a request that creates a key. */
export function readKeyRequest(body: JsonObject, nowMs: number): Read<KeyRequest> {
  const result = validateKnown(body, keySchema);
  if (!result.ok) return result;
  const { name = null, scopes, expiresAt, rate = null } = result.value as z.output<typeof keySchema>;
  const expiresAtMs =
    typeof expiresAt === 'string' ? Number(parseTimestampNs(expiresAt)! / 1_000_000n) : null;
  if (expiresAtMs !== null && expiresAtMs <= nowMs) {
    return { ok: false, details: [{ path: 'expiresAt', message: 'must be in the future' }] };
  }
  return { ok: true, request: { name, scopes: [...new Set(scopes)], expiresAtMs, rate } };
}

/**
 * Reads the body of a request that rotates a key. `overlapMs`: how long the previous secret stays
 * valid.
 */
export function readRotationRequest(body: JsonObject): Read<{ readonly overlapMs: number }> {
  const result = validateKnown(body, rotationSchema);
  if (!result.ok) return result;
  const { overlapSeconds } = result.value as z.output<typeof rotationSchema>;
  return { ok: true, request: { overlapMs: (overlapSeconds ?? OVERLAP_SECONDS) * 1000 } };
}
