import type { z } from 'zod';
import type { ErrorDetail } from './errors.ts';
import { arrayOf, objectOf, oneOf, stringField } from './fields.ts';
import type { JsonObject } from './json.ts';
import { validate } from './parsed.ts';
import { WEBHOOK_TYPES, type WebhookType } from './webhooks.ts';

const URL_LENGTH_MAX = 2048;

export const endpointSchema = objectOf({
  url: stringField({ lengthMax: URL_LENGTH_MAX, notBlank: true, noControlCharacters: true }).describe(
    'Destination of the webhooks: https to a public address on port 443 or 8443, unless the settings permit more.',
  ),
  eventTypes: arrayOf(oneOf(WEBHOOK_TYPES), {
    ifEmpty: 'must have at least one entry; omit it for all types',
  })
    .nullish()
    .describe('The types to receive; omitted: all, including those of later releases.'),
});

/** The properties of a new endpoint. The caller checks its URL. */
export interface EndpointRequest {
  readonly url: string;
  /** Null: all types. */
  readonly eventTypes: readonly WebhookType[] | null;
}

/** Reads the body of a request that creates a webhook endpoint. */
export function readEndpointRequest(
  body: JsonObject,
):
  | { readonly ok: true; readonly request: EndpointRequest }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] } {
  const result = validate(body, endpointSchema);
  if (!result.ok) return result;
  const { url, eventTypes } = result.value as z.output<typeof endpointSchema>;
  const types = eventTypes ? ([...new Set(eventTypes)] as WebhookType[]) : null;
  return { ok: true, request: { url, eventTypes: types } };
}
