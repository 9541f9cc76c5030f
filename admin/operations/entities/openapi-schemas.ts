import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { agentSchema } from '../../../shared/kinds/agent-metadata.ts';
import { conversationSchema } from '../../../shared/kinds/conversation-metadata.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { POSITION_SCHEMA } from '../events/openapi.ts';

/** Returns the schema of a member's value, which is null in no answer and in no parameter. */
export function withoutNull({ anyOf, ...schema }: JsonSchema): JsonSchema {
  const [one] = (anyOf ?? []) as JsonSchema[];
  if (one) return { ...one, ...schema };
  return Array.isArray(schema.type) ? { ...schema, type: schema.type[0] } : schema;
}

/** Returns the schema of an entity: the members of its records, without the record's id. */
function entitySchema(recordSchema: JsonSchema, idMember: string): JsonSchema {
  const { eventId: _, ...members } = recordSchema.properties as Readonly<Record<string, JsonSchema>>;
  return {
    type: 'object',
    required: [idMember, 'updatedAt'],
    properties: {
      ...Object.fromEntries(Object.entries(members).map(([name, schema]) => [name, withoutNull(schema)])),
      updatedAt: {
        type: 'string',
        format: 'date-time',
        description: 'When a worker last stored a record of it.',
      },
    },
  };
}

function withHistory(schema: JsonSchema): JsonSchema {
  return { ...schema, properties: { ...(schema.properties as JsonSchema), history: schemaRef('History') } };
}

function pageSchema(item: string): JsonSchema {
  return {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: schemaRef(item) },
      next: { type: 'string', description: 'The `cursor` of the next page; omitted on the last page.' },
    },
  };
}

const AGENT = entitySchema(jsonSchemaOf(agentSchema), 'externalAgentId');
const CONVERSATION = entitySchema(jsonSchemaOf(conversationSchema), 'externalConversationId');

export const ENTITY_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  StoredAgent: AGENT,
  StoredAgents: pageSchema('StoredAgent'),
  StoredAgentWithHistory: withHistory(AGENT),
  StoredConversation: CONVERSATION,
  StoredConversations: pageSchema('StoredConversation'),
  StoredConversationWithHistory: withHistory(CONVERSATION),
  History: {
    ...pageSchema('HistoryEntry'),
    description: 'With `history=true`: the records in the order in which they were merged.',
  },
  HistoryEntry: {
    type: 'object',
    required: ['position', 'eventId', 'acceptedAt', 'patch'],
    properties: {
      position: { ...POSITION_SCHEMA, description: 'Generation and offset order the records.' },
      eventId: { type: 'string' },
      acceptedAt: { type: 'string', format: 'date-time' },
      patch: {
        type: 'object',
        additionalProperties: true,
        description: 'The record as accepted: an omitted member keeps the value, `null` clears it.',
      },
    },
  },
};
