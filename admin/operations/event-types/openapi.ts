import { describeEventTypes } from '../../../shared/contracts/event-types.ts';
import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { WEBHOOK_TYPES } from '../../../shared/contracts/webhooks.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import type { Operations } from '../../../shared/openapi/operation.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';

export const EVENT_TYPE_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  EventType: {
    type: 'object',
    required: ['type', 'description', 'schema', 'example'],
    properties: {
      type: { type: 'string', enum: WEBHOOK_TYPES },
      description: { type: 'string', description: 'When the event is sent.' },
      schema: {
        type: 'object',
        additionalProperties: true,
        description: 'JSON Schema (draft 2020-12) of the body of the webhook.',
      },
      example: { type: 'object', additionalProperties: true, description: 'A body of a webhook.' },
    },
  },
  EventTypes: {
    type: 'object',
    required: ['items'],
    properties: { items: { type: 'array', items: schemaRef('EventType') } },
  },
};

export const EVENT_TYPE_OPERATIONS: Operations = {
  'GET /admin/v1/event-types': {
    operationId: 'list-event-types',
    tag: 'webhooks',
    scope: 'webhooks:manage',
    summary: 'List the types of events that webhooks report',
    description:
      'Each with a JSON Schema and an example of its body. The schemas permit unknown members, because later releases add some.',
    answers: { 200: { description: 'The event types.', schema: schemaRef('EventTypes') } },
    ownErrors: DATABASE_ERRORS,
    examples: {
      all: { summary: 'All event types', status: 200, answer: { items: describeEventTypes() } },
    },
  },
};
