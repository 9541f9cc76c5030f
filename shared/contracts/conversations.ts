import type { z } from 'zod';
import {
  arrayOf,
  attributesField,
  eventIdField,
  objectOf,
  oneOf,
  stringField,
  text256,
  word,
} from './fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from './json.ts';
import { type Parsed, parseRecord } from './parsed.ts';

export const DEVICE_TYPES = ['TABLET', 'PHONE', 'DESKTOP', 'WATCH', 'OTHER'] as const;
export const PLATFORMS = [
  'SMS',
  'WEB',
  'IOS',
  'ANDROID',
  'APP',
  'LOCAL',
  'VOICE',
  'VOICE_IOS',
  'VOICE_ANDROID',
  'VOICE_ECHO',
  'VOICE_HOMEPOD',
  'VOICE_GGLHOME',
  'VOICE_WEB',
  'APPLEBIZ',
  'GOOGLEBIZ',
  'GBM',
  'WAB',
] as const;
export const OPERATING_SYSTEMS = ['MAC_OS', 'LINUX', 'WINDOWS', 'ANDROID', 'IOS', 'OTHER'] as const;

const schema = objectOf({
  eventId: eventIdField.nullish(),
  externalConversationId: word(256),
  lobId: word(256).nullish(),
  lobName: text256.nullish(),
  groupId: word(256).nullish(),
  groupName: text256.nullish(),
  agentRoutingCode: word(256).nullish(),
  campaign: word(256).nullish(),
  deviceType: oneOf(DEVICE_TYPES).nullish(),
  platform: oneOf(PLATFORMS).nullish(),
  companySegment: arrayOf(word(64)).nullish(),
  companySubdivision: word(256).nullish(),
  businessRule: text256.nullish(),
  entryType: word(256).nullish(),
  operatingSystem: oneOf(OPERATING_SYSTEMS).nullish(),
  browserType: word(64).nullish(),
  browserVersion: stringField({
    lengthMax: 16,
    pattern: /^[a-zA-Z0-9_.-]+$/,
    patternText: "one or more letters, digits, '_', '.' or '-'",
  }).nullish(),
  attributes: attributesField.nullish(),
});

/** One conversation as reported: a merge patch, in which an omitted member leaves and null clears what is stored. */
export type ConversationRecord = z.output<typeof schema>;

export const CONVERSATION_RAW_MEMBERS = NO_RAW_MEMBERS;

/** Reads the body of a request with one conversation. */
export function readConversation(value: JsonValue): Parsed<ConversationRecord> {
  return parseRecord(value, {
    schema,
    idMember: 'eventId',
    keepNull: true,
    entity: (conversation) => conversation.externalConversationId,
  });
}
