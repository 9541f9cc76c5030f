import type { z } from 'zod';
import {
  arrayOf,
  attributesField,
  eventIdField,
  int32,
  objectOf,
  optionalId,
  requiredId,
  stringField,
  text256,
  timestampField,
} from '../contracts/fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from '../contracts/json.ts';
import { type ParsedWithJson, parseRecord, type RecordRules } from '../contracts/parsed.ts';
import { BLANK_AGENT_ID } from '../contracts/results.ts';

const languageTag = stringField({
  lengthMax: 256,
  pattern: /^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$/,
  patternText: "a language tag: letters and digits, subtags separated by '-'",
});

export const agentSchema = objectOf({
  eventId: eventIdField
    .nullish()
    .describe(
      'Your id of this item. An item with the same id and content is stored once. Omitted: Sluice generates an id.',
    ),
  externalAgentId: requiredId.describe("The agent's id in your system."),
  startTs: timestampField
    .nullish()
    .describe('Time from which the reported values are valid, kept to the nanosecond.'),
  lobId: optionalId.nullish().describe('Id of the line of business.'),
  lobName: text256.nullish().describe('Name of the line of business.'),
  groupId: optionalId.nullish().describe('Id of the group.'),
  groupName: text256.nullish().describe('Name of the group.'),
  agentName: text256.nullish().describe("The agent's name."),
  agentLocation: text256.nullish().describe("The agent's location."),
  supervisorId: optionalId.nullish().describe("The supervisor's id."),
  supervisorName: text256.nullish().describe("The supervisor's name."),
  languages: arrayOf(languageTag).nullish().describe('Language tags such as en-gb; stored in lower case.'),
  concurrency: int32(0).nullish().describe('Number of simultaneous conversations.'),
  categoryLabel: text256.nullish().describe('Label of the category.'),
  accountAccessLevel: text256.nullish().describe("Label of the account's access level."),
  ranking: int32().nullish().describe("The agent's rank."),
  vendor: text256.nullish().describe('Label of the vendor.'),
  jobTitle: text256.nullish().describe('Job title.'),
  jobRole: text256.nullish().describe('Job role.'),
  workShift: text256.nullish().describe('Label of the shift.'),
  emailAddress: stringField({
    lengthMax: 256,
    pattern: /^[^\s@]+@[^\s@]+\.[^\s@]+$/,
    patternText: 'an e-mail address such as name@example.org',
  })
    .nullish()
    .describe("The agent's e-mail address."),
  attributes: attributesField.nullish().describe('Additional attributes.'),
});

/**
 * A report of an agent as a merge patch: an omitted member keeps the stored value, and null clears
 * it.
 */
export type AgentRecord = z.output<typeof agentSchema>;

export const AGENT_RAW_MEMBERS = NO_RAW_MEMBERS;

export const agentRules = {
  schema: agentSchema,
  idMember: 'eventId',
  keepNull: true,
  entityMembers: ['externalAgentId'],
  lowerCased: 'languages',
} satisfies RecordRules<typeof agentSchema>;

/** Reads one item of a request of many agents. */
export function readAgentItem(value: JsonValue): ParsedWithJson<AgentRecord> {
  const parsed = parseRecord(value, agentRules);
  return !parsed.ok && isAgentIdBlank(value)
    ? { ...parsed, details: [{ path: '', message: BLANK_AGENT_ID }] }
    : parsed;
}

function isAgentIdBlank(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { externalAgentId } = value as { externalAgentId?: unknown };
  if (externalAgentId === undefined || externalAgentId === null) return true;
  return typeof externalAgentId === 'string' && externalAgentId.trim() === '';
}
