import { CONVERSATION_ID_PARAMETER } from '../../../shared/openapi/conversation-id.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { CREDENTIALS_BODY_BYTES_MAX } from '../../limits/policies.ts';

const parameters = { conversationId: 'DOCS1' };

export const AUTHENTICATE: OperationDescription = {
  operationId: 'authenticate',
  tag: 'credentials',
  summary: "Store a customer's credentials for a conversation",
  description:
    'Credentials are encrypted before they reach the event log, and erased when they expire. Only the automated agent ' +
    'can read them, on the admin listener.',
  scope: 'credentials:write',
  parameters: [CONVERSATION_ID_PARAMETER],
  body: { schema: schemaRef('Credentials'), bytesMax: CREDENTIALS_BODY_BYTES_MAX },
  answers: { 204: { description: 'The credentials are accepted. No body.' } },
  refusals: ['422-01'],
  ownErrors: {
    '400-01': {
      meaning:
        '`conversationId` is malformed, or the body is not one JSON object in UTF-8 with `Content-Type: application/json`.',
    },
    '503-01': {
      meaning:
        'It is unknown whether they were accepted. Retry after `Retry-After` seconds; the newest submission counts.',
    },
  },
  examples: {
    minimal: {
      summary: 'A token, in short form',
      parameters,
      body: { customerExternalId: 'customer-1', token: 'a-token' },
      status: 204,
    },
    full: {
      summary: 'Every kind of credentials',
      parameters,
      body: {
        customerExternalId: 'customer-1',
        streamId: 'stream-1',
        auth: {
          token: 'a-token',
          body: { session: { id: 17 } },
          cookies: { sid: 'a-cookie' },
          headers: { authorization: 'Bearer a-token' },
        },
      },
      status: 204,
    },
    refused: {
      summary: 'The credentials are empty',
      parameters,
      body: { customerExternalId: 'customer-1', auth: {} },
      status: 422,
      answer: exampleError('422-01', {
        path: 'auth',
        message: 'must hold at least one of token, body, cookies and headers',
      }),
    },
    malformedPath: {
      summary: 'The conversation id is malformed',
      parameters: { conversationId: 'docs-1' },
      body: { customerExternalId: 'customer-1', token: 'a-token' },
      status: 400,
      answer: exampleError('400-01', {
        path: 'conversationId',
        message: 'must be 1 to 256 upper-case letters and digits',
      }),
    },
  },
};
