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
  timestampField,
  word,
} from '../contracts/fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from '../contracts/json.ts';
import {
  type ParsedRecord,
  type ParsedWithJson,
  parseRecord,
  type RecordRules,
} from '../contracts/parsed.ts';
import { parseTimestampNs } from '../contracts/timestamps.ts';

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

/**
 * New members are appended: the content hash covers the members in this order, and records without
 * the new ones must keep their hash.
 */
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
  externalConversationId: word(256)
    .nullish()
    .describe("The conversation's id in your chat or voice system, as in the conversation's metadata."),
  occurredAt: timestampField
    .nullish()
    .describe(
      'Time at which the message was sent, kept to the nanosecond: at most 7 days before and 5 minutes after the request. ' +
        'Omitted: the time of the request.',
    ),
});

/** One MessageSent event as sent; omitted members get their defaults when it is stored. */
export type MessageSentRecord = z.output<typeof messageSentSchema>;

export const MESSAGE_SENT_RAW_MEMBERS = NO_RAW_MEMBERS;

export const messageSentRules = {
  schema: messageSentSchema,
  idMember: 'messageId',
  keepNull: false,
  entityMembers: ['conversationId', 'messageId'],
  timeMember: 'occurredAt',
} satisfies RecordRules<typeof messageSentSchema>;

/** Reads the body of a MessageSent request. The event's id is the messageId, which is required. */
export function readMessageSent(value: JsonValue): ParsedWithJson<MessageSentRecord> {
  return parseRecord(value, messageSentRules);
}

const NS_PER_MS = 1_000_000n;
/** A feed that was down for a week can be repeated. */
const AGE_MAX_NS = 7n * 86_400_000n * NS_PER_MS;
/** The clocks of callers may be ahead. */
const AHEAD_MAX_NS = 5n * 60_000n * NS_PER_MS;

/** Returns the event, or its problem if it occurred too long before or after it is accepted. */
export function checkOccurredAt(parsed: ParsedRecord, acceptedAtMs: number): ParsedRecord {
  if (!parsed.ok || parsed.time === undefined) return parsed;
  const aheadNs = parseTimestampNs(parsed.time)! - BigInt(acceptedAtMs) * NS_PER_MS;
  if (aheadNs >= -AGE_MAX_NS && aheadNs <= AHEAD_MAX_NS) return parsed;
  const message = 'must be at most 7 days before and 5 minutes after the request';
  return { ok: false, id: parsed.id, details: [{ path: 'occurredAt', message }] };
}
