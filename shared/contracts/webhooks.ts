import { type JsonObject, writeJson } from './json.ts';

/** The types of events that a webhook endpoint can receive. */
export const WEBHOOK_TYPES = [
  'automation.processing_started',
  'automation.reply',
  'automation.processing_ended',
  'automation.confirmation_required',
  'automation.authentication_required',
  'automation.transferred_to_agent',
  'automation.transferred_to_system',
  'conversation.credentials_stored',
  'ingestion.record_rejected',
  'webhook.endpoint_disabled',
  'webhook.test',
] as const;

export type WebhookType = (typeof WEBHOOK_TYPES)[number];

export function isWebhookType(text: string): text is WebhookType {
  return (WEBHOOK_TYPES as readonly string[]).includes(text);
}

/**
 * Returns the body of a webhook: exactly these bytes are stored, signed and sent. A sample is marked
 * in the body, because the signature covers only the body, the id and the timestamp.
 */
export function webhookBody(
  type: WebhookType,
  timestampMs: number,
  data: JsonObject,
  { sample }: { readonly sample?: true } = {},
): string {
  return writeJson({ type, timestamp: new Date(timestampMs).toISOString(), data, sample });
}
