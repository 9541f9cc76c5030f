import { z } from 'zod';
import { freeForm } from './fields.ts';
import type { JsonObject } from './json.ts';
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts';
import { KINDS } from './kinds.ts';
import { WEBHOOK_TYPES, type WebhookType } from './webhooks.ts';

/**
 * The catalogue of event types: when each is sent, the schema of its body, and an example. The
 * documents, the page for receivers, `GET /admin/v1/event-types` and samples come from it. Sluice does
 * not validate with these schemas; receivers of tests do, with every webhook.
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
  .object({
    messageId: z.string().describe('Id of the reply.'),
    text: z.string().describe('The text for the customer.'),
  })
  .describe('The answer of the automated agent.');
const transferToSystem = z
  .object({
    referenceVariables: freeForm.nullish().describe('Byte for byte.'),
    transferVariables: freeForm.nullish().describe('Byte for byte.'),
    currentTaskName: z.string().nullish().describe('The task that the agent worked on.'),
  })
  .describe('Data for the calling system.');
/**
 * An automation event of any type may have `reply`, `transferToSystem`, both or neither. The members are
 * in the order in which they are sent.
 */
const automation = z.object({
  ...conversation,
  reply: reply.optional(),
  transferToSystem: transferToSystem.optional(),
  ...latest,
});

interface EventType {
  /** When the event is sent, as one sentence. */
  readonly description: string;
  /** The schema of `data`. */
  readonly data: z.ZodType;
  /** The `data` of an example. */
  readonly example: JsonObject;
}

const IN_A_CONVERSATION = {
  automationAgentMessageId: '01KE1B3Q0D5W8X2Y4Z6A7C9E1G',
  conversationId: 'CHAT1',
  externalConversationId: 'chat-1',
};
const IN_A_TASK = { currentTaskName: 'Change a booking', inputVariables: { booking: 'B-4711', seats: 2 } };

const TYPES: Readonly<Record<WebhookType, EventType>> = {
  'automation.processing_started': {
    description: 'The automated agent started to work on a message of the customer.',
    data: automation,
    example: IN_A_CONVERSATION,
  },
  'automation.reply': {
    description: 'The automated agent answered the customer.',
    data: automation.extend({ reply }),
    example: {
      ...IN_A_CONVERSATION,
      reply: { messageId: 'reply-1', text: 'Your booking is changed.' },
      ...IN_A_TASK,
    },
  },
  'automation.processing_ended': {
    description: 'The automated agent has finished its work on a message.',
    data: automation,
    example: { ...IN_A_CONVERSATION, ...IN_A_TASK },
  },
  'automation.confirmation_required': {
    description: 'The automated agent waits until the customer confirms.',
    data: automation,
    example: { ...IN_A_CONVERSATION, ...IN_A_TASK },
  },
  'automation.authentication_required': {
    description: 'The automated agent waits until the customer has logged in.',
    data: automation,
    example: { ...IN_A_CONVERSATION, currentTaskName: 'Show the invoices' },
  },
  'automation.transferred_to_agent': {
    description: 'The automated agent requested that a human agent takes over.',
    data: automation,
    example: { ...IN_A_CONVERSATION, ...IN_A_TASK },
  },
  'automation.transferred_to_system': {
    description: 'The automated agent returned control to the calling system.',
    data: automation,
    example: {
      ...IN_A_CONVERSATION,
      transferToSystem: {
        referenceVariables: { queue: 'bookings' },
        transferVariables: { booking: 'B-4711', paid: true },
        currentTaskName: 'Change a booking',
      },
      ...IN_A_TASK,
    },
  },
  'conversation.credentials_stored': {
    description: "Credentials of the conversation's customer were stored. They are never sent.",
    data: z.object({
      conversationId: z.string().describe("The service's id of the conversation."),
      customerExternalId: z.string().describe("The customer's id in the caller's system."),
      streamId: z.string().optional().describe('Id of the connection to which responses are sent.'),
    }),
    example: { conversationId: 'CHAT1', customerExternalId: 'customer-1', streamId: 'stream-1' },
  },
  'ingestion.record_rejected': {
    description: 'A record was answered 2xx and could not be stored.',
    data: z.object({
      eventId: z.string().describe('The eventId or messageId of the record.'),
      kind: z.enum(KINDS).describe('The kind of the record.'),
      reason: z.string().describe('The reason as a code, such as `conflict`.'),
      error: z.string().describe('The reason as text, without values of the record.'),
    }),
    example: {
      eventId: 'message-1',
      kind: 'message-sent',
      reason: 'conflict',
      error: 'a record with this id and other content was stored before',
    },
  },
  'webhook.endpoint_disabled': {
    description: 'Another endpoint of the tenant was disabled, because its receiver is gone or kept failing.',
    data: z.object({
      endpointId: z.string().describe('Id of the disabled endpoint.'),
      url: z.string().describe('Its URL.'),
      reason: z
        .enum(['gone', 'failing'])
        .describe('`gone`: the endpoint answered 410. `failing`: it failed for 5 days.'),
    }),
    example: {
      endpointId: '01KE1B3Q0D5W8X2Y4Z6A7C9E1G',
      url: 'https://hooks.example.com/sluice',
      reason: 'gone',
    },
  },
  'webhook.test': {
    description: 'A sample, which `sluice webhooks test` sends.',
    data: z.object({ endpointId: z.string().describe('Id of the endpoint.') }),
    example: { endpointId: '01KE1B3Q0D5W8X2Y4Z6A7C9E1G' },
  },
};

/** Time of the examples' events. */
const EXAMPLE_TIME_MS = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

/** An event type as `GET /admin/v1/event-types` returns it. */
export interface EventTypeDescription {
  readonly type: WebhookType;
  readonly description: string;
  /** JSON Schema of the body. */
  readonly schema: JsonSchema;
  /** A body. */
  readonly example: JsonObject;
}

/** Returns all event types. */
export function describeEventTypes(): EventTypeDescription[] {
  return WEBHOOK_TYPES.map((type) => ({
    type,
    description: TYPES[type].description,
    schema: webhookJsonSchema(type),
    example: {
      type,
      timestamp: new Date(EXAMPLE_TIME_MS).toISOString(),
      data: TYPES[type].example,
      // Every webhook of this type is a sample.
      ...(type === 'webhook.test' && { sample: true }),
    },
  }));
}

/** Returns the `data` of an example. */
export function exampleData(type: WebhookType): JsonObject {
  return TYPES[type].example;
}

/** Returns the JSON Schema of the body of a webhook. */
export function webhookJsonSchema(type: WebhookType): JsonSchema {
  return jsonSchemaOf(
    z.object({
      type: z.literal(type),
      timestamp: z.iso.datetime().describe('When the event occurred.'),
      data: TYPES[type].data,
      sample: z
        .boolean()
        .optional()
        .describe('True if this is a sample of `sluice webhooks test`. Otherwise omitted.'),
    }),
  );
}

/** The headers of Standard Webhooks, and the context of the trace. */
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
  traceparent: z
    .string()
    .optional()
    .describe(
      'W3C trace context, if the record came with one or Sluice exports traces. Not part of the signature.',
    ),
});
