import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import { AGENT_EXAMPLE, CONVERSATION_EXAMPLE } from '../../../shared/openapi/example-records.ts';
import type {
  OperationDescription,
  OperationExample,
  OperationParameter,
  Operations,
} from '../../../shared/openapi/operation.ts';
import { ROWS_SEARCHED_MAX } from '../../../shared/postgres/entities.ts';
import { PAGE_BYTES_MAX } from '../../../shared/postgres/page-bytes.ts';
import { AGENTS, CONVERSATIONS, type StoredEntities } from '../../../shared/postgres/stored-entities.ts';
import { UNKNOWN_CURSOR } from '../../request/cursor.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { withoutNull } from './openapi-schemas.ts';

const LIMIT_SCHEMA: JsonSchema = { type: 'integer', minimum: 1, maximum: 1000, default: 100 };
const CURSOR_SCHEMA: JsonSchema = { type: 'string', pattern: '^[a-zA-Z0-9_-]+$' };

const PAGE_MIB = PAGE_BYTES_MAX / (1024 * 1024);

const COMMON = { tag: 'entities', scope: 'records:read' } as const;

/** The filters as parameters, each with the rules of its member. */
function filterParameters({ filters }: StoredEntities): OperationParameter[] {
  const members = jsonSchemaOf(filters).properties as Readonly<Record<string, JsonSchema>>;
  return Object.entries(members).map(([name, member]) => {
    const { description, ...schema } = withoutNull(member);
    const equal = `Only those with this value. ${description}`;
    return { name, in: 'query', description: name === 'updatedSince' ? String(description) : equal, schema };
  });
}

function listOperation(
  entities: StoredEntities,
  schema: string,
  examples: Readonly<Record<string, OperationExample>>,
): OperationDescription {
  const { name, tables } = entities;
  return {
    ...COMMON,
    operationId: `list-${tables.current}`,
    summary: `List ${tables.current}`,
    description:
      `The tenant's ${tables.current} as they are now, sorted by id. With several filters, each must match. A request with ` +
      `filters searches at most ${ROWS_SEARCHED_MAX} ${tables.current}, and a page ends after ${PAGE_MIB} MiB. So it can have ` +
      'fewer items than `limit`, or none, although `next` continues the list. Each parameter at most once.',
    parameters: [
      ...filterParameters(entities),
      {
        name: 'limit',
        in: 'query',
        description: `Maximum number of ${tables.current}.`,
        schema: LIMIT_SCHEMA,
      },
      {
        name: 'cursor',
        in: 'query',
        description: 'The `next` of the previous page, with the same filters.',
        schema: CURSOR_SCHEMA,
      },
    ],
    answers: { 200: { description: `A page of ${tables.current}.`, schema: schemaRef(schema) } },
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': { meaning: 'A parameter is unknown or invalid, or the cursor is of another list.' },
    },
    examples: {
      ...examples,
      limit: {
        summary: 'The limit is out of range',
        parameters: { limit: '0' },
        status: 400,
        answer: exampleError('400-01', { path: 'limit', message: 'must be a whole number from 1 to 1000' }),
      },
      cursor: {
        summary: `The cursor is not of this list of ${name}s`,
        parameters: { cursor: 'another' },
        status: 400,
        answer: exampleError('400-01', UNKNOWN_CURSOR),
      },
    },
  };
}

function showOperation(
  { name, tables }: StoredEntities,
  schema: string,
  examples: Readonly<Record<string, OperationExample>>,
): OperationDescription {
  const idMember = tables.idMembers[1];
  return {
    ...COMMON,
    operationId: `show-${name}`,
    summary: `Return the stored metadata of ${name === 'agent' ? 'an agent' : 'a conversation'}`,
    description:
      `The values that the records of the ${name} gave it; members without a value are omitted. With \`history=true\` also the ` +
      `records themselves, in the order in which they were merged; a page of them ends after ${PAGE_MIB} MiB.`,
    parameters: [
      {
        name: idMember,
        in: 'path',
        description: `The id of the ${name} in your system.`,
        schema: { type: 'string', minLength: 1 },
      },
      {
        name: 'history',
        in: 'query',
        description: 'Whether to add the records.',
        schema: { type: 'boolean', default: false },
      },
      {
        name: 'limit',
        in: 'query',
        description: 'Maximum number of records. Only with `history=true`.',
        schema: LIMIT_SCHEMA,
      },
      {
        name: 'cursor',
        in: 'query',
        description: 'The `history.next` of the previous answer. Only with `history=true`.',
        schema: CURSOR_SCHEMA,
      },
    ],
    answers: { 200: { description: `The ${name}.`, schema: schemaRef(schema) } },
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': { meaning: 'The path is malformed, or a parameter is unknown or invalid.' },
      '404-01': {
        meaning: `Your tenant has no such ${name} (yet), or the path or method does not exist.`,
      },
    },
    examples: {
      ...examples,
      unknown: {
        summary: `No record of the ${name} is stored`,
        parameters: { [idMember]: `no-such-${name}` },
        status: 404,
        answer: exampleError('404-01', { path: idMember, message: 'is not known (yet)' }),
      },
      cursor: {
        summary: 'A cursor without the history',
        parameters: { [idMember]: `no-such-${name}`, cursor: 'another' },
        status: 400,
        answer: exampleError('400-01', { path: 'cursor', message: 'needs history=true' }),
      },
    },
  };
}

const UPDATED_AT = '2026-01-02T03:04:05.789Z';

const AGENT = { ...AGENT_EXAMPLE, startTs: '2026-01-02T02:04:05.123456789Z', updatedAt: UPDATED_AT };
const CONVERSATION = { ...CONVERSATION_EXAMPLE, updatedAt: UPDATED_AT };

export const ENTITY_OPERATIONS: Operations = {
  'GET /admin/v1/agents': listOperation(AGENTS, 'StoredAgents', {
    group: {
      summary: "The agents of a group of the gateway's examples, once they are stored",
      parameters: { groupId: 'group-1', agentLocation: 'Leeds' },
      status: 200,
      answer: { items: [AGENT] },
    },
    none: {
      summary: 'No agent matches',
      parameters: { emailAddress: 'nobody@example.org' },
      status: 200,
      answer: { items: [] },
    },
  }),
  'GET /admin/v1/agents/:externalAgentId': showOperation(AGENTS, 'StoredAgentWithHistory', {
    known: {
      summary: "An agent of the gateway's examples, once it is stored",
      parameters: { externalAgentId: 'agent-1' },
      status: 200,
      answer: AGENT,
    },
    history: {
      summary: 'An agent without a value, and its only record',
      parameters: { externalAgentId: 'agent-2', history: 'true' },
      status: 200,
      answer: {
        externalAgentId: 'agent-2',
        updatedAt: UPDATED_AT,
        history: {
          items: [
            {
              position: { generation: 1, partition: 3, offset: '1207' },
              eventId: 'docs-agent-2',
              acceptedAt: '2026-01-02T03:04:05.678Z',
              patch: { eventId: 'docs-agent-2', externalAgentId: 'agent-2', emailAddress: null },
            },
          ],
        },
      },
    },
  }),
  'GET /admin/v1/conversations': listOperation(CONVERSATIONS, 'StoredConversations', {
    campaign: {
      summary: "The conversations of a campaign of the gateway's examples, once they are stored",
      parameters: { campaign: 'spring', platform: 'IOS' },
      status: 200,
      answer: { items: [CONVERSATION] },
    },
    none: {
      summary: 'No conversation matches',
      parameters: { updatedSince: '2261-01-01T00:00:00Z' },
      status: 200,
      answer: { items: [] },
    },
  }),
  'GET /admin/v1/conversations/:externalConversationId': showOperation(
    CONVERSATIONS,
    'StoredConversationWithHistory',
    {
      known: {
        summary: "A conversation of the gateway's examples, once it is stored",
        parameters: { externalConversationId: 'docs-1' },
        status: 200,
        answer: CONVERSATION,
      },
    },
  ),
};
