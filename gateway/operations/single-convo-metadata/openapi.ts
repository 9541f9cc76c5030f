import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import { CONVERSATION_EXAMPLE } from '../../../shared/openapi/example-records.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';

const FULL = { eventId: 'docs-conversation-1', ...CONVERSATION_EXAMPLE };

export const SINGLE_CONVO_METADATA: OperationDescription = {
  operationId: 'add-conversation-metadata',
  tag: 'metadata',
  summary: 'Add metadata of one conversation',
  description:
    'A merge patch on the stored metadata of the conversation: an omitted member keeps the value, `null` clears it, an array replaces it.',
  scope: 'conversation-metadata:write',
  body: { schema: schemaRef('Conversation'), bytesMax: BODY_BYTES_MAX },
  reportsKnownRecords: true,
  answers: {
    200: { description: 'The record is accepted.', schema: schemaRef('SingleResult') },
    400: {
      description: 'The body is not one JSON object, or is invalid; the result has the reason.',
      schema: schemaRef('SingleResult'),
    },
  },
  refusals: ['409-01'],
  ownErrors: {
    // Problems of the body are reported in the result.
    '400-01': {
      meaning: 'The request is not valid HTTP, its headers are too large, or it did not arrive in time.',
      details: [{ path: 'request', message: 'headers are larger than 16 KiB' }],
    },
  },
  examples: {
    minimal: {
      summary: 'Without an id: a repeat is a new record',
      body: { externalConversationId: 'docs-1', platform: 'WEB' },
      status: 200,
      answer: { result: { eventId: EXAMPLE_ULID, error: '' } },
    },
    full: {
      summary: 'Every member',
      body: FULL,
      status: 200,
      answer: { result: { eventId: 'docs-conversation-1', error: '' } },
    },
    conflict: {
      summary: 'The id was accepted before with other content',
      body: { ...FULL, campaign: 'summer' },
      status: 409,
      answer: exampleError('409-01', {
        path: 'eventId',
        message: 'this eventId was accepted before with other content',
      }),
    },
    refused: {
      summary: 'The record is invalid',
      body: { eventId: 'docs-conversation-2', externalConversationId: 'docs 1' },
      status: 400,
      answer: {
        result: {
          eventId: 'docs-conversation-2',
          error:
            "FAIL_BAD_PARAMS: ERROR: externalConversationId must be one or more letters, digits, '_' or '-'",
        },
      },
    },
  },
};
