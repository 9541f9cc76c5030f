import type { z } from 'zod';
import { OVERLAP_SECONDS, OVERLAP_SECONDS_MAX } from './api-keys.ts';
import type { ErrorDetail } from './errors.ts';
import { arrayOf, int32, objectOf, oneOf, stringField } from './fields.ts';
import type { JsonObject } from './json.ts';
import { validateKnown } from './known-members.ts';
import { filterField } from './webhook-filters.ts';
import { headersField } from './webhook-headers.ts';
import { parseWebhookSecret, SECRET_TEXT } from './webhook-secrets.ts';

const URL_LENGTH_MAX = 2048;
const SECRET_LENGTH_MAX = 128;
export const ENDPOINT_RATE_MAX = 1000;

/** Schedules of retries after failed attempts. */
export const RETRY_SCHEDULES = ['standard', 'short', 'none'] as const;
export type RetrySchedule = (typeof RETRY_SCHEDULES)[number];

const urlField = stringField({
  lengthMax: URL_LENGTH_MAX,
  notBlank: true,
  noControlCharacters: true,
}).describe(
  'Destination of the webhooks: https to a public address on port 443 or 8443, unless the settings permit more.',
);
/** The base64 of 24 to 64 whole bytes: the last character of an incomplete group has unused bits of 0. */
export const SECRET_PATTERN =
  '^whsec_(([A-Za-z0-9+/]{4}){8,21}([A-Za-z0-9+/][AQgw](==)?)?|([A-Za-z0-9+/]{4}){8,20}[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=?)$';
const secretField = stringField({ lengthMax: SECRET_LENGTH_MAX })
  .refine((text) => parseWebhookSecret(text) !== undefined, { error: `must be ${SECRET_TEXT}` })
  .meta({ maxLength: SECRET_LENGTH_MAX, pattern: SECRET_PATTERN })
  .nullish()
  .describe(`Your own signing secret: ${SECRET_TEXT}. Omitted: Sluice generates one.`);

/** The members of an endpoint that can be changed later. */
const SETTINGS = {
  eventTypes: arrayOf(filterField, { ifEmpty: 'must have at least one entry; omit it for all types' })
    .nullish()
    .describe(
      'The types to receive. `automation.*` is every type of a group, including those of later releases. Null or omitted: ' +
        'all types.',
    ),
  description: stringField({ lengthMax: 1024, noControlCharacters: true })
    .nullish()
    .describe('A text for people.'),
  headers: headersField
    .nullish()
    .describe(
      'At most 20 headers to send with each webhook, by name. Their values are stored encrypted and never shown. Headers ' +
        'that Sluice sets itself are refused.',
    ),
  ratePerSecond: int32(1, ENDPOINT_RATE_MAX)
    .nullish()
    .describe('Maximum attempts per second, evenly spaced. Null or omitted: no limit.'),
  retrySchedule: oneOf(RETRY_SCHEDULES)
    .nullish()
    .describe(
      'When failed attempts are repeated. `standard`: 10 attempts in 3 days. `short`: 6 attempts within an hour. `none`: ' +
        'a single attempt. Null or omitted: `standard`.',
    ),
};

export const endpointSchema = objectOf({ url: urlField, ...SETTINGS, secret: secretField });
export const endpointChangeSchema = objectOf({ url: urlField.optional(), ...SETTINGS });
export const secretRotationSchema = objectOf({
  overlapSeconds: int32(0, OVERLAP_SECONDS_MAX)
    .nullish()
    .describe(
      `Seconds for which the previous secret signs too; omitted: ${OVERLAP_SECONDS} (a day); 0 ends all previous secrets ` +
        'immediately.',
    ),
  secret: secretField,
});

/** What the owner of an endpoint sets. The caller checks its URL. */
export interface EndpointSettings {
  readonly url: string;
  /** The filters by type; null: all types. */
  readonly eventTypes: readonly string[] | null;
  readonly description: string | null;
  /** Custom headers by name; null: none. */
  readonly headers: Readonly<Record<string, string>> | null;
  /** Attempts per second; null: no limit. */
  readonly ratePerSecond: number | null;
  readonly retrySchedule: RetrySchedule;
}

export interface EndpointRequest extends EndpointSettings {
  /** The owner's own secret. */
  readonly secret: Buffer | undefined;
}

export type EndpointChange = Partial<EndpointSettings>;

export interface SecretRotation {
  /** How long the previous secret signs too, in milliseconds. */
  readonly overlapMs: number;
  readonly secret: Buffer | undefined;
}

type Read<T> =
  | { readonly ok: true; readonly request: T }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] };

/** Reads the body of a request that creates a webhook endpoint. */
export function readEndpointRequest(body: JsonObject): Read<EndpointRequest> {
  const result = validateKnown(body, endpointSchema);
  if (!result.ok) return result;
  const { url, secret, ...given } = result.value as z.output<typeof endpointSchema>;
  const settings = settingsOf({
    eventTypes: null,
    description: null,
    headers: null,
    ratePerSecond: null,
    retrySchedule: null,
    ...given,
  });
  return {
    ok: true,
    request: { ...(settings as Omit<EndpointSettings, 'url'>), url, secret: secretOf(secret) },
  };
}

/** What a request that changes an endpoint does not change, and which requests do. */
const CHANGED_ELSEWHERE = {
  secret: 'is changed by POST /admin/v1/webhooks/{endpointId}/rotate',
  state: 'is changed by POST /admin/v1/webhooks/{endpointId}/pause, …/resume and …/enable',
  health: 'is changed by POST /admin/v1/webhooks/{endpointId}/pause, …/resume and …/enable',
};

/** Reads the body of a request that changes a webhook endpoint: members that it lacks stay as they are. */
export function readEndpointChange(body: JsonObject): Read<EndpointChange> {
  const result = validateKnown(body, endpointChangeSchema, CHANGED_ELSEWHERE);
  if (!result.ok) return result;
  const change = settingsOf(result.value as z.output<typeof endpointChangeSchema>);
  if (Object.keys(change).length > 0) return { ok: true, request: change };
  const names = Object.keys(endpointChangeSchema.shape).join(', ');
  return { ok: false, details: [{ path: 'body', message: `must have at least one of ${names}` }] };
}

/** Reads the body of a request that rotates the secret of an endpoint. */
export function readSecretRotation(body: JsonObject): Read<SecretRotation> {
  const result = validateKnown(body, secretRotationSchema);
  if (!result.ok) return result;
  const { overlapSeconds, secret } = result.value as z.output<typeof secretRotationSchema>;
  return {
    ok: true,
    request: { overlapMs: (overlapSeconds ?? OVERLAP_SECONDS) * 1000, secret: secretOf(secret) },
  };
}

/** Returns the settings that a request has, with what null means. */
function settingsOf(given: z.output<typeof endpointChangeSchema>): EndpointChange {
  const { url, eventTypes, description, headers, ratePerSecond, retrySchedule } = given;
  return {
    ...(url !== undefined && { url }),
    ...(eventTypes !== undefined && { eventTypes: filtersOf(eventTypes as readonly string[] | null) }),
    ...(description !== undefined && { description: description === '' ? null : description }),
    ...(headers !== undefined && { headers: isEmpty(headers) ? null : headers }),
    ...(ratePerSecond !== undefined && { ratePerSecond }),
    ...(retrySchedule !== undefined && { retrySchedule: (retrySchedule ?? 'standard') as RetrySchedule }),
  };
}

function filtersOf(filters: readonly string[] | null): readonly string[] | null {
  return filters === null || filters.includes('*') ? null : [...new Set(filters)];
}

function isEmpty(headers: Readonly<Record<string, string>> | null): boolean {
  return headers === null || Object.keys(headers).length === 0;
}

function secretOf(text: string | null | undefined): Buffer | undefined {
  return text === null || text === undefined ? undefined : parseWebhookSecret(text);
}
