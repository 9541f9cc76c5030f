import type { z } from 'zod';
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
} from './fields.ts';
import type { JsonValue } from './json.ts';
import { type Parsed, parseRecord } from './parsed.ts';

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

/** The states that a conversation's automation can be in, as the state operation names them. */
export const AUTOMATION_STATES = [
  'ready',
  'processing',
  'waitingForConfirmation',
  'waitingForAuth',
  'transferredToAgent',
  'transferredToSystem',
] as const;

export type AutomationState = (typeof AUTOMATION_STATES)[number];

const schema = objectOf({
  eventId: ulidField.nullish(),
  conversationId: requiredId,
  externalConversationId: requiredId,
  type: oneOf(AUTOMATION_EVENT_TYPES),
  occurredAt: timestampField,
  currentTaskName: text256.nullish(),
  inputVariables: freeForm.nullish(),
  reply: objectOf({
    messageId: requiredId,
    text: stringField({ lengthMax: TEXT_LENGTH_MAX }),
  }).nullish(),
  transferToSystem: objectOf({
    referenceVariables: freeForm.nullish(),
    transferVariables: freeForm.nullish(),
    currentTaskName: text256.nullish(),
  }).nullish(),
}).check((ctx) => {
  if (ctx.value.type === 'reply' && !ctx.value.reply) {
    ctx.issues.push({
      code: 'custom',
      path: ['reply'],
      message: 'is required when type is reply',
      input: undefined,
    });
  }
});

/** One thing that the automated agent did. */
export type AutomationEventRecord = z.output<typeof schema>;

export const AUTOMATION_EVENT_RAW_MEMBERS: ReadonlySet<string> = new Set([
  'inputVariables',
  'referenceVariables',
  'transferVariables',
]);

/** Reads one item of a request of the engine's feed. */
export function readAutomationEvent(value: JsonValue): Parsed<AutomationEventRecord> {
  return parseRecord(value, {
    schema,
    idMember: 'eventId',
    keepNull: false,
    entity: (event) => event.externalConversationId,
  });
}
