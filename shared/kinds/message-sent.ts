import type { z } from 'zod';
import {
  arrayOf,
  int32,
  objectOf,
  oneOf,
  optionalId,
  requiredId,
  secondsField,
  stringField,
  TEXT_LENGTH_MAX,
} from '../contracts/fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from '../contracts/json.ts';
import { type ParsedWithJson, parseRecord, type RecordRules } from '../contracts/parsed.ts';

export const AUGMENTATION_TYPES = [
  'FREEHAND',
  'AUTOSUGGEST',
  'AUTOCOMPLETE',
  'PHRASE_AUTOCOMPLETE',
  'CUSTOM_DRAWER',
  'CUSTOM_INSERT',
  'GLOBAL_INSERT',
  'FLUENCY_APPLY',
  'FLUENCY_UNDO',
] as const;

export const messageSentSchema = objectOf({
  conversationId: optionalId.nullish().describe("The service's id of the conversation."),
  messageId: requiredId.describe(
    'Id of the message that was sent. An event with the same id and content is stored once.',
  ),
  augmentationType: arrayOf(oneOf(AUGMENTATION_TYPES), { ifEmpty: 'must have at least one entry' }).describe(
    'Features that the agent used to write the message, in order; repeated use is kept.',
  ),
  numEdits: int32(0)
    .nullish()
    .describe('Keystrokes after a full suggestion was selected; 0 if the suggestion was sent unedited.'),
  initialSuggestionsId: optionalId
    .nullish()
    .describe('Id of the first set of suggestions that the agent saw.'),
  phraseAutocompletePresentedCt: int32(0).nullish().describe('Number of phrase completions that were shown.'),
  selectedSuggestionText: stringField({ lengthMax: TEXT_LENGTH_MAX })
    .nullish()
    .describe('Text of the suggestion that was used.'),
  selectedSuggestionsId: optionalId.nullish().describe('Id of the set that the suggestion came from.'),
  selectedSuggestionIndex: int32(1).nullish().describe('Position of the suggestion in its set, from 1.'),
  timeToAction: secondsField
    .nullish()
    .describe("Seconds from the agent's previous message to the first action on this message."),
  craftingTime: secondsField.nullish().describe('Seconds from the first to the last action on this message.'),
  dwellTime: secondsField.nullish().describe('Seconds from the last action until the message was sent.'),
  phraseAutocompleteSelectedCt: int32(0).nullish().describe('Number of phrase completions that were used.'),
});

/** One MessageSent event as sent; omitted members get their defaults when it is stored. */
export type MessageSentRecord = z.output<typeof messageSentSchema>;

export const MESSAGE_SENT_RAW_MEMBERS = NO_RAW_MEMBERS;

export const messageSentRules = {
  schema: messageSentSchema,
  idMember: 'messageId',
  keepNull: false,
  entityMembers: ['conversationId', 'messageId'],
} satisfies RecordRules<typeof messageSentSchema>;

/** Reads the body of a MessageSent request. The event's id is the messageId, which is required. */
export function readMessageSent(value: JsonValue): ParsedWithJson<MessageSentRecord> {
  return parseRecord(value, messageSentRules);
}
