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
} from './fields.ts';
import { type JsonValue, NO_RAW_MEMBERS } from './json.ts';
import { type Parsed, parseRecord } from './parsed.ts';
import { BLANK_AGENT_ID } from './results.ts';

const languageTag = stringField({
  lengthMax: 256,
  pattern: /^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$/,
  patternText: "a language tag: letters and digits, subtags separated by '-'",
});

const schema = objectOf({
  eventId: eventIdField.nullish(),
  externalAgentId: requiredId,
  startTs: timestampField.nullish(),
  lobId: optionalId.nullish(),
  lobName: text256.nullish(),
  groupId: optionalId.nullish(),
  groupName: text256.nullish(),
  agentName: text256.nullish(),
  agentLocation: text256.nullish(),
  supervisorId: optionalId.nullish(),
  supervisorName: text256.nullish(),
  languages: arrayOf(languageTag).nullish(),
  concurrency: int32(0).nullish(),
  categoryLabel: text256.nullish(),
  accountAccessLevel: text256.nullish(),
  ranking: int32().nullish(),
  vendor: text256.nullish(),
  jobTitle: text256.nullish(),
  jobRole: text256.nullish(),
  workShift: text256.nullish(),
  emailAddress: stringField({
    lengthMax: 256,
    pattern: /^[^\s@]+@[^\s@]+\.[^\s@]+$/,
    patternText: 'an e-mail address such as name@example.org',
  }).nullish(),
  attributes: attributesField.nullish(),
});

/** One agent as reported: a merge patch, in which an omitted member leaves and null clears what is stored. */
export type AgentRecord = z.output<typeof schema>;

export const AGENT_RAW_MEMBERS = NO_RAW_MEMBERS;

/** Reads one item of a request of many agents. */
export function readAgentItem(value: JsonValue): Parsed<AgentRecord> {
  const parsed = parseRecord(value, {
    schema,
    idMember: 'eventId',
    keepNull: true,
    entity: (agent) => agent.externalAgentId,
  });
  if (!parsed.ok) {
    return isAgentIdBlank(value) ? { ...parsed, details: [{ path: '', message: BLANK_AGENT_ID }] } : parsed;
  }
  const { languages } = parsed.record;
  if (!languages) return parsed;
  return { ...parsed, record: { ...parsed.record, languages: languages.map((tag) => tag.toLowerCase()) } };
}

function isAgentIdBlank(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { externalAgentId } = value as { externalAgentId?: unknown };
  if (externalAgentId === undefined || externalAgentId === null) return true;
  return typeof externalAgentId === 'string' && externalAgentId.trim() === '';
}
