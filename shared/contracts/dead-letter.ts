import { isUtf8 } from 'node:buffer';
import { FIRST_POSITION_HEADER, REPLAY_HEADER, readEnvelope } from './event.ts';
import { requiredId } from './fields.ts';
import { isJsonObject, type JsonObject } from './json.ts';
import type { Kind } from './kinds.ts';

/**
 * The reason of dead letters whose id is stored with other content. A replay would fail again, so
 * conflicts are not replayed unless they are asked for.
 */
export const CONFLICT = 'conflict';

/** Why a record became a dead letter. */
export const DEAD_LETTER_REASONS = [
  'undecodable',
  'unknown-version',
  'invalid',
  'time',
  CONFLICT,
  'refused',
  'crash',
] as const;

export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number];

const DAY_MS = 86_400_000;
/**
 * Returns how long a dead letter is kept after its last failure, in milliseconds. Dead letters of
 * credentials are kept for a shorter time.
 */
export const deadLetterKeptMs = (kind: Kind): number => (kind === 'credentials' ? 7 : 30) * DAY_MS;

/**
 * The owner of a dead letter's record, if it can be read. Members are '' if they are missing or are
 * not valid ids.
 */
export interface RecordIdentity {
  readonly tenantId: string;
  readonly recordId: string;
  readonly entity: string;
  /** Undefined if the record has no valid time. */
  readonly acceptedAtMs: number | undefined;
  /** The id of the key that encrypted the credentials in the record. */
  readonly keyId: string | null;
}

/** Encrypted credentials inside the value of a record. */
export interface EncryptedInRecord {
  readonly keyId: string;
  readonly ciphertext: Buffer;
  /** Identifiers that the ciphertext is bound to. */
  readonly aad: readonly [tenantId: string, conversationId: string];
}

/**
 * Reads the identity from a value, which may be malformed. If the value does not name tenant and
 * entity, the record's key does.
 */
export function identityOf(value: Buffer | null, key: Buffer | null): RecordIdentity {
  const event = value && envelopeOf(value);
  const [tenantId, entity] = partsOf(key);
  const member = (name: string) => idOrEmpty(event?.[name]);
  const acceptedAtMs = typeof event?.time === 'string' ? Date.parse(event.time) : Number.NaN;
  return {
    tenantId: member('tenantid') || idOrEmpty(tenantId),
    recordId: member('id'),
    entity: member('subject') || idOrEmpty(entity),
    acceptedAtMs: Number.isFinite(acceptedAtMs) ? acceptedAtMs : undefined,
    keyId: (event && encryptedOf(event)?.keyId) ?? null,
  };
}

/** Returns the credentials in a value; undefined if there are none. */
export function encryptedIn(value: Buffer): EncryptedInRecord | undefined {
  const event = envelopeOf(value);
  return event && encryptedOf(event);
}

/** Returns the value with its credentials replaced and everything else unchanged. */
export function withEncrypted(
  value: Buffer,
  { keyId, ciphertext }: { readonly keyId: string; readonly ciphertext: Buffer },
): Buffer {
  const event = JSON.parse(value.toString());
  const data = { ...event.data, keyId, ciphertext: ciphertext.toString('base64') };
  return Buffer.from(JSON.stringify({ ...event, data }));
}

/**
 * Returns the headers with which the record was first published, without those that a replay adds.
 */
export function contentHeaders<Header extends { readonly name: string }>(
  headers: readonly Header[],
): Header[] {
  return headers.filter(({ name }) => name !== FIRST_POSITION_HEADER && name !== REPLAY_HEADER);
}

function envelopeOf(value: Buffer): JsonObject | undefined {
  try {
    return readEnvelope(value);
  } catch {
    return undefined;
  }
}

function encryptedOf({ tenantid, subject, data }: JsonObject): EncryptedInRecord | undefined {
  if (typeof tenantid !== 'string' || typeof subject !== 'string' || !isJsonObject(data)) return undefined;
  const { keyId, ciphertext } = data;
  if (typeof ciphertext !== 'string' || typeof keyId !== 'string' || idOrEmpty(keyId) === '')
    return undefined;
  return { keyId, ciphertext: Buffer.from(ciphertext, 'base64'), aad: [tenantid, subject] };
}

/** Returns the tenant and the entity of a partition key. */
function partsOf(key: Buffer | null): [string, string] {
  const end = key && isUtf8(key) ? key.indexOf(':') : -1;
  return end < 0 ? ['', ''] : [key!.toString('utf8', 0, end), key!.toString('utf8', end + 1)];
}

function idOrEmpty(text: unknown): string {
  return typeof text === 'string' && requiredId.safeParse(text).success ? text : '';
}
