import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { KINDS } from '../../../shared/contracts/kinds.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type { Operations } from '../../../shared/openapi/operation.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';

export const POSITION_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['generation', 'partition', 'offset'],
  properties: {
    generation: { type: 'integer' },
    partition: { type: 'integer' },
    offset: { type: 'string' },
  },
};

export const EVENT_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['id', 'kind', 'status', 'acceptedAt', 'storedAt', 'conflicts', 'deliveries'],
  properties: {
    id: { type: 'string' },
    kind: { type: 'string', enum: KINDS },
    status: { type: 'string', enum: ['stored', 'dead-lettered'] },
    acceptedAt: { type: 'string', format: 'date-time' },
    storedAt: {
      type: ['string', 'null'],
      format: 'date-time',
      description: 'Null for a dead letter.',
    },
    position: { ...POSITION_SCHEMA, description: 'Position of a dead letter in its topic.' },
    conflicts: {
      type: 'integer',
      minimum: 0,
      description:
        'Number of different contents that were accepted with the id and rejected later. Requests answered 409-01 do not count.',
    },
    lastConflict: {
      type: 'object',
      description: 'The latest of these conflicts.',
      required: ['at', 'position'],
      properties: { at: { type: 'string', format: 'date-time' }, position: POSITION_SCHEMA },
    },
    error: { type: 'string', description: 'The reason of a dead letter.' },
    deliveries: {
      type: 'array',
      items: schemaRef('Delivery'),
      description:
        'The deliveries of its webhooks, newest first, at most 1000. Empty: no endpoint took its type when it was stored, or the ' +
        'endpoint was deleted since. Not of credentials, whose ids are generated.',
    },
  },
};

export const EVENT_OPERATIONS: Operations = {
  'GET /admin/v1/events/:id': {
    operationId: 'show-event',
    tag: 'events',
    scope: 'events:read',
    summary: 'Report the status of a record',
    description: '404-01 until a worker has read the record.',
    parameters: [
      {
        name: 'id',
        in: 'path',
        description: 'The eventId or messageId.',
        schema: { type: 'string', minLength: 1 },
      },
      {
        name: 'kind',
        in: 'query',
        description: 'Required if records of several kinds have the id. The only parameter, at most once.',
        schema: { type: 'string', enum: KINDS },
      },
    ],
    answers: { 200: { description: 'The status of the record.', schema: schemaRef('Event') } },
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': {
        meaning:
          'The path or the query is malformed, or records of several kinds have the id and `kind` is missing.',
      },
      '404-01': {
        meaning: 'No worker has seen a record with this id (yet), or the path or method does not exist.',
      },
    },
    examples: {
      known: {
        summary: "A message of the gateway's examples, once it is stored",
        parameters: { id: 'docs-message-1', kind: 'message-sent' },
        status: 200,
        answer: {
          id: 'docs-message-1',
          kind: 'message-sent',
          status: 'stored',
          acceptedAt: '2026-01-02T03:04:05.678Z',
          storedAt: '2026-01-02T03:04:05.789Z',
          conflicts: 0,
          deliveries: [],
        },
      },
      unknown: {
        summary: 'No worker has seen the record',
        parameters: { id: 'no-such-record' },
        status: 404,
        answer: exampleError('404-01', { path: 'id', message: 'is not known (yet)' }),
      },
      unknownKind: {
        summary: 'The kind is unknown',
        parameters: { id: 'docs-message-1', kind: 'message' },
        status: 400,
        answer: exampleError('400-01', { path: 'kind', message: `must be one of ${KINDS.join(', ')}` }),
      },
    },
  },
};
