import { z } from 'zod';
import { freeForm } from '../../shared/contracts/fields.ts';
import { KINDS } from '../../shared/contracts/kinds.ts';
import { WEBHOOK_TYPES, type WebhookType } from '../../shared/contracts/webhooks.ts';

/**
 * The schemas of webhooks, for the AsyncAPI and the OpenAPI document. A test compares the schemas with
 * what the workers send.
 */

const conversation = {
  automationAgentMessageId: z.string().describe('The eventId of the event.'),
  conversationId: z.string().describe("The service's id of the conversation."),
  externalConversationId: z.string().describe('Id of the conversation in the chat or voice system.'),
};
const latest = {
  currentTaskName: z.string().optional().describe('The task that the agent is working on.'),
  inputVariables: freeForm.optional().describe('The last input variables, byte for byte.'),
};
const reply = z
  .object({ messageId: z.string(), text: z.string() })
  .describe('The answer of the automated agent.');
const transferToSystem = z
  .object({
    referenceVariables: freeForm.nullish(),
    transferVariables: freeForm.nullish(),
    currentTaskName: z.string().nullish(),
  })
  .describe('Data for the calling system.');
/** An automation event of any type may have `reply`, `transferToSystem`, both or neither. */
const automation = z.object({
  ...conversation,
  ...latest,
  reply: reply.optional(),
  transferToSystem: transferToSystem.optional(),
});

const DATA: Readonly<Record<WebhookType, z.ZodType>> = {
  'automation.processing_started': automation,
  'automation.reply': automation.extend({ reply }),
  'automation.processing_ended': automation,
  'automation.confirmation_required': automation,
  'automation.authentication_required': automation,
  'automation.transferred_to_agent': automation,
  'automation.transferred_to_system': automation,
  'conversation.credentials_stored': z.object({
    conversationId: z.string().describe("The service's id of the conversation."),
    customerExternalId: z.string().describe("The customer's id in the caller's system."),
    streamId: z.string().optional().describe('Id of the connection to which responses are sent.'),
  }),
  'ingestion.record_rejected': z.object({
    eventId: z.string().describe('The eventId or messageId of the record.'),
    kind: z.enum(KINDS),
    reason: z.string().describe('The reason as a code, such as `conflict`.'),
    error: z.string().describe('The reason as text, without values of the record.'),
  }),
  'webhook.endpoint_disabled': z.object({
    endpointId: z.string(),
    url: z.string(),
    reason: z
      .enum(['gone', 'failing'])
      .describe('`gone`: the endpoint answered 410. `failing`: it failed for 5 days.'),
  }),
  'webhook.test': z.object({ endpointId: z.string() }),
};

/** Returns the schema of the body of a webhook. */
export function webhookSchema(type: WebhookType) {
  return z.object({
    type: z.literal(type),
    timestamp: z.iso.datetime().describe('When the event occurred.'),
    data: DATA[type],
  });
}

export const WEBHOOK_SCHEMAS = WEBHOOK_TYPES.map((type) => [type, webhookSchema(type)] as const);

/** The headers of Standard Webhooks. */
export const webhookHeadersSchema = z.object({
  'webhook-id': z.string().min(1).describe('Id of the webhook, the same in every attempt.'),
  'webhook-timestamp': z
    .string()
    .regex(/^[0-9]+$/)
    .describe('Time of this attempt, in seconds since the Unix epoch.'),
  'webhook-signature': z
    .string()
    .regex(/^v1,[A-Za-z0-9+/=]+(?: v1,[A-Za-z0-9+/=]+)*$/)
    .describe('HMAC-SHA256 over id, timestamp and body, joined by dots; one for each secret.'),
});
