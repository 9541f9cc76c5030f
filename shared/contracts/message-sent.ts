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
} from './fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from './json.ts';
import { type Parsed, parseRecord } from './parsed.ts';

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

const schema = objectOf({
  conversationId: optionalId.nullish(),
  messageId: requiredId,
  augmentationType: arrayOf(oneOf(AUGMENTATION_TYPES)).min(1, { error: 'must have at least one entry' }),
  numEdits: int32(0).nullish(),
  initialSuggestionsId: optionalId.nullish(),
  phraseAutocompletePresentedCt: int32(0).nullish(),
  selectedSuggestionText: stringField({ lengthMax: TEXT_LENGTH_MAX }).nullish(),
  selectedSuggestionsId: optionalId.nullish(),
  selectedSuggestionIndex: int32(1).nullish(),
  timeToAction: secondsField.nullish(),
  craftingTime: secondsField.nullish(),
  dwellTime: secondsField.nullish(),
  phraseAutocompleteSelectedCt: int32(0).nullish(),
});

/** One MessageSent event as sent; what was omitted gets its default where it is stored. */
export type MessageSentRecord = z.output<typeof schema>;

export const MESSAGE_SENT_RAW_MEMBERS = NO_RAW_MEMBERS;

/** Reads the body of a MessageSent request. Its id is the messageId, which every event has. */
export function readMessageSent(value: JsonValue): Parsed<MessageSentRecord> {
  return parseRecord(value, {
    schema,
    idMember: 'messageId',
    keepNull: false,
    entity: (event) => event.conversationId || event.messageId,
  });
}
