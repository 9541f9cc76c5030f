import { requiredId } from '../../../shared/contracts/fields.ts';
import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { AUTOMATION_STATES } from '../../../shared/kinds/automation-events.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';

export const STATE_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['state'],
  properties: {
    state: { type: 'string', enum: AUTOMATION_STATES },
    lastAutomationAgentMessageId: { type: 'string', description: "The `eventId` of the agent's last reply." },
    currentTaskName: { type: 'string', description: 'The task that the agent is working on.' },
    inputVariables: {
      type: 'object',
      additionalProperties: true,
      description: 'The last reported input variables, unchanged.',
    },
  },
};

export const STATE: OperationDescription = {
  operationId: 'read-automation-state',
  tag: 'automation',
  summary: 'Read the state of the automated agent in a conversation',
  description:
    'Unknown members are omitted. A conversation with metadata but no automation events is 404-01.',
  scope: 'state:read',
  parameters: [
    {
      name: 'externalId',
      in: 'query',
      required: true,
      description: 'Id of the conversation in your chat or voice system. The only parameter, exactly once.',
      schema: jsonSchemaOf(requiredId),
    },
  ],
  answers: { 200: { description: 'The state.', schema: schemaRef('AutomationState') } },
  ownErrors: {
    '400-01': {
      meaning:
        'The query is malformed: `externalId` is missing, blank or repeated, or there is another parameter.',
    },
    '404-01': {
      meaning:
        'No automation event of the conversation is stored (yet): `details` name `externalId`. Without `details`: the path or method does not exist.',
    },
    '503-01': { meaning: 'The database is unavailable. Retry after `Retry-After` seconds.' },
  },
  examples: {
    known: {
      summary: 'The conversation in the examples of automation events, once they are stored',
      parameters: { externalId: 'docs-1' },
      status: 200,
      answer: {
        state: 'transferredToSystem',
        lastAutomationAgentMessageId: '01KE1B3Q0D000000000000000B',
        currentTaskName: 'Farewell',
        inputVariables: { order: 4711 },
      },
    },
    unknown: {
      summary: 'The conversation is unknown',
      parameters: { externalId: 'no-such-conversation' },
      status: 404,
      answer: exampleError('404-01', { path: 'externalId', message: 'is not known (yet)' }),
    },
    empty: {
      summary: 'The id is empty',
      parameters: { externalId: '' },
      status: 400,
      answer: exampleError('400-01', { path: 'externalId', message: 'must not be blank' }),
    },
  },
};
