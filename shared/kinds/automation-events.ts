import type { z } from 'zod';
import { compile, INVALID, readBy } from '../contracts/compiled-schema.ts';
import {
  freeForm,
  objectOf,
  oneOf,
  requiredId,
  stringField,
  TEXT_LENGTH_MAX,
  text256,
  timestampField,
  ulidField,
} from '../contracts/fields.ts';
import type { JsonValue } from '../contracts/json.ts';
import { type ParsedWithJson, parseRecord } from '../contracts/parsed.ts';

export const AUTOMATION_EVENT_TYPES = [
  'processingStart',
  'reply',
  'processingEnd',
  'confirmationRequired',
  'authenticationRequired',
  'transferToAgent',
  'transferToSystem',
] as const;

export type AutomationEventType = (typeof AUTOMATION_EVENT_TYPES)[number];

/** The states of a conversation's automation, as returned by the operation that reads the state. */
export const AUTOMATION_STATES = [
  'ready',
  'processing',
  'waitingForConfirmation',
  'waitingForAuth',
  'transferredToAgent',
  'transferredToSystem',
] as const;

export type AutomationState = (typeof AUTOMATION_STATES)[number];

const members = objectOf({
  eventId: ulidField.nullish().describe('Your id of this event, a ULID. Omitted: Sluice generates an id.'),
  conversationId: requiredId.describe("The service's id of the conversation."),
  externalConversationId: requiredId.describe('Id of the conversation in the chat or voice system.'),
  type: oneOf(AUTOMATION_EVENT_TYPES).describe('Type of the event.'),
  occurredAt: timestampField.describe(
    'Time of the event. The state follows the order in which events arrive, not this time.',
  ),
  currentTaskName: text256.nullish().describe('The task that the automated agent works on.'),
  inputVariables: freeForm.nullish().describe('The last input variables, kept byte for byte.'),
  reply: objectOf({
    messageId: requiredId.describe('Id of the reply.'),
    text: stringField({ lengthMax: TEXT_LENGTH_MAX }).describe('The reply.'),
  })
    .nullish()
    .describe('The answer to the customer; required for the type reply.'),
  transferToSystem: objectOf({
    referenceVariables: freeForm.nullish().describe('Kept byte for byte.'),
    transferVariables: freeForm.nullish().describe('Kept byte for byte.'),
    currentTaskName: text256.nullish().describe('The task that the automated agent works on.'),
  })
    .nullish()
    .describe('Data for the calling system.'),
});

/** The rule that concerns two members. */
function lacksReply({ type, reply }: z.output<typeof members>): boolean {
  return type === 'reply' && !reply;
}

export const automationEventSchema = readBy(
  members
    .check((ctx) => {
      if (!lacksReply(ctx.value)) return;
      const message = 'is required when type is reply';
      ctx.issues.push({ code: 'custom', path: ['reply'], message, input: undefined });
    })
    .meta({
      if: { properties: { type: { const: 'reply' } } },
      // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema
      then: { required: ['reply'], properties: { reply: { type: 'object' } } },
    }),
  (value) => {
    const event = compile(members)!(value);
    return event === INVALID || lacksReply(event as z.output<typeof members>) ? INVALID : event;
  },
);

/** One action of the automated agent. */
export type AutomationEventRecord = z.output<typeof automationEventSchema>;

/** Reads one item of a request of the engine's feed. */
export function readAutomationEvent(value: JsonValue): ParsedWithJson<AutomationEventRecord> {
  return parseRecord(value, {
    schema: automationEventSchema,
    idMember: 'eventId',
    keepNull: false,
    entityMembers: ['externalConversationId'],
  });
}
