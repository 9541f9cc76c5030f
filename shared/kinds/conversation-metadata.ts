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
} from '../contracts/fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from '../contracts/json.ts';
import { type ParsedWithJson, parseRecord, type RecordRules } from '../contracts/parsed.ts';

const DEVICE_TYPES = ['TABLET', 'PHONE', 'DESKTOP', 'WATCH', 'OTHER'] as const;
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
const OPERATING_SYSTEMS = ['MAC_OS', 'LINUX', 'WINDOWS', 'ANDROID', 'IOS', 'OTHER'] as const;

export const conversationSchema = objectOf({
  eventId: eventIdField
    .nullish()
    .describe(
      'Your id of this record. The same id and content is stored once. Omitted: Sluice generates an id.',
    ),
  externalConversationId: word(256).describe("The conversation's id in your chat or voice system."),
  lobId: word(256).nullish().describe('Id of the line of business.'),
  lobName: text256.nullish().describe('Name of the line of business.'),
  groupId: word(256).nullish().describe("Id of the agent's group."),
  groupName: text256.nullish().describe("Name of the agent's group."),
  agentRoutingCode: word(256).nullish().describe('Code by which the conversation was routed.'),
  campaign: word(256).nullish().describe('Campaign that the conversation belongs to.'),
  deviceType: oneOf(DEVICE_TYPES).nullish().describe("The customer's device."),
  platform: oneOf(PLATFORMS).nullish().describe("The customer's platform."),
  companySegment: arrayOf(word(64)).nullish().describe('Company segments that the conversation belongs to.'),
  companySubdivision: word(256).nullish().describe('Subdivision of the company.'),
  businessRule: text256.nullish().describe('Business rule to use.'),
  entryType: word(256).nullish().describe('How the conversation began.'),
  operatingSystem: oneOf(OPERATING_SYSTEMS).nullish().describe("The customer's operating system."),
  browserType: word(64).nullish().describe("The customer's browser."),
  browserVersion: stringField({
    lengthMax: 16,
    pattern: /^[a-zA-Z0-9_.-]+$/,
    patternText: "one or more letters, digits, '_', '.' or '-'",
  })
    .nullish()
    .describe('Version of the browser.'),
  attributes: attributesField.nullish().describe('Additional attributes.'),
});

/**
 * A report of a conversation as a merge patch: an omitted member keeps the stored value, and null
 * clears it.
 */
export type ConversationRecord = z.output<typeof conversationSchema>;

export const CONVERSATION_RAW_MEMBERS = NO_RAW_MEMBERS;

export const conversationRules = {
  schema: conversationSchema,
  idMember: 'eventId',
  keepNull: true,
  entityMembers: ['externalConversationId'],
} satisfies RecordRules<typeof conversationSchema>;

/** Reads the body of a request with one conversation. */
export function readConversation(value: JsonValue): ParsedWithJson<ConversationRecord> {
  return parseRecord(value, conversationRules);
}
