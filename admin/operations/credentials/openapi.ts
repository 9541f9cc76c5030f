import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { CONVERSATION_ID_SCHEMA } from '../../../shared/http/conversation-id.ts';
import { CONVERSATION_ID_PARAMETER } from '../../../shared/openapi/conversation-id.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type { Operations } from '../../../shared/openapi/operation.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';

export const CREDENTIALS_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  StoredCredentials: {
    type: 'object',
    required: ['conversationId', 'customerExternalId', 'auth', 'acceptedAt', 'expiresAt'],
    properties: {
      conversationId: CONVERSATION_ID_SCHEMA,
      customerExternalId: { type: 'string' },
      streamId: { type: 'string' },
      auth: {
        type: 'object',
        description: 'The value as sent, unchanged.',
        properties: {
          token: { type: 'string' },
          body: { type: 'object', additionalProperties: true },
          cookies: { type: 'object', additionalProperties: true },
          headers: { type: 'object', additionalProperties: true },
        },
      },
      acceptedAt: { type: 'string', format: 'date-time' },
      expiresAt: { type: 'string', format: 'date-time' },
    },
  },
  CredentialReads: {
    type: 'object',
    required: ['items'],
    properties: {
      items: {
        type: 'array',
        items: {
          type: 'object',
          required: ['readId', 'readAt', 'apiKeyId', 'requestId', 'conversationId', 'outcome', 'eventId'],
          properties: {
            readId: { type: 'string' },
            readAt: { type: 'string', format: 'date-time' },
            apiKeyId: { type: 'string', description: 'The API key that read or erased the credentials.' },
            requestId: { type: 'string' },
            conversationId: { type: 'string' },
            outcome: {
              type: 'string',
              enum: ['read', 'missing', 'expired', 'erased', 'key-lost', 'unreadable', 'erasure'],
            },
            eventId: {
              type: ['string', 'null'],
              description: 'The id of the submission; null if there was none.',
            },
          },
        },
      },
      next: { type: 'string', description: 'The `before` of the next page; omitted on the last page.' },
    },
  },
};

const COMMON = { tag: 'credentials', scope: 'credentials:read', ownErrors: DATABASE_ERRORS } as const;
const MALFORMED = {
  summary: 'The conversation id is malformed',
  parameters: { conversationId: 'docs-1' },
  status: 400,
  answer: exampleError('400-01', {
    path: 'conversationId',
    message: 'must be 1 to 256 upper-case letters and digits',
  }),
};

export const CREDENTIALS_OPERATIONS: Operations = {
  'GET /internal/v1/conversations/:conversationId/credentials': {
    ...COMMON,
    operationId: 'read-credentials',
    summary: "Read the customer's credentials of a conversation",
    description:
      'For the automated agent: the newest submission that has not expired. Every read is recorded in the audit before it is ' +
      'answered.',
    parameters: [CONVERSATION_ID_PARAMETER],
    answers: { 200: { description: 'The credentials.', schema: schemaRef('StoredCredentials') } },
    ownErrors: {
      ...DATABASE_ERRORS,
      '404-01': {
        meaning:
          'The conversation has no credentials, they have expired, were erased or are not stored yet; or the path or method does not exist.',
      },
      '500-01': {
        meaning:
          'A fault of the service, or the encryption key is no longer in the key ring; logged with the request id.',
      },
      '503-01': {
        meaning:
          'The database or the audit is unavailable: no credentials were returned. Retry after `Retry-After` seconds.',
      },
    },
    examples: {
      known: {
        summary: "The credentials of the gateway's examples, once they are stored",
        parameters: { conversationId: 'DOCS1' },
        status: 200,
        answer: {
          conversationId: 'DOCS1',
          customerExternalId: 'customer-1',
          streamId: 'stream-1',
          auth: {
            token: 'a-token',
            body: { session: { id: 17 } },
            cookies: { sid: 'a-cookie' },
            headers: { authorization: 'Bearer a-token' },
          },
          acceptedAt: '2026-01-02T03:04:05.678Z',
          expiresAt: '2026-01-03T03:04:05.678Z',
        },
      },
      missing: {
        summary: 'The conversation has no credentials',
        parameters: { conversationId: 'DOCS2' },
        status: 404,
        answer: exampleError('404-01'),
      },
      malformed: MALFORMED,
    },
  },
  'DELETE /internal/v1/conversations/:conversationId/credentials': {
    ...COMMON,
    scope: 'credentials:erase',
    operationId: 'erase-credentials',
    summary: "Erase the customer's credentials of a conversation",
    description:
      'Erases all that were accepted up to now, including those not stored yet. They can no longer be read; the event log keeps ' +
      'the encrypted bytes until its retention ends. The audit records the erasure.',
    parameters: [CONVERSATION_ID_PARAMETER],
    answers: { 204: { description: 'The credentials are erased, or there were none. No body.' } },
    examples: {
      none: {
        summary: 'A conversation without credentials',
        parameters: { conversationId: 'DOCS4' },
        status: 204,
      },
      malformed: MALFORMED,
    },
  },
  'GET /internal/v1/credential-reads': {
    ...COMMON,
    operationId: 'list-credential-reads',
    summary: 'List reads of credentials',
    description: 'The audit of the tenant, newest first. Each parameter at most once; any other is 400-01.',
    parameters: [
      {
        name: 'conversationId',
        in: 'query',
        description: 'Only reads of this conversation.',
        schema: CONVERSATION_ID_SCHEMA,
      },
      {
        name: 'limit',
        in: 'query',
        description: 'Maximum number of reads.',
        schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
      },
      {
        name: 'before',
        in: 'query',
        description: 'The `next` of the previous page.',
        schema: { type: 'string', pattern: '^[0-9]{1,14}\\.[0-9A-Z]{1,32}$' },
      },
    ],
    answers: { 200: { description: 'A page of reads.', schema: schemaRef('CredentialReads') } },
    examples: {
      one: {
        summary: 'Reads of one conversation',
        parameters: { conversationId: 'DOCS2', limit: '1' },
        status: 200,
        answer: {
          items: [
            {
              readId: EXAMPLE_ULID,
              readAt: '2026-01-02T03:04:05.678Z',
              apiKeyId: EXAMPLE_ULID,
              requestId: EXAMPLE_ULID,
              conversationId: 'DOCS2',
              outcome: 'missing',
              eventId: null,
            },
          ],
        },
      },
      none: {
        summary: 'A conversation without reads',
        parameters: { conversationId: 'DOCS3' },
        status: 200,
        answer: { items: [] },
      },
      limit: {
        summary: 'The limit is out of range',
        parameters: { limit: '0' },
        status: 400,
        answer: exampleError('400-01', { path: 'limit', message: 'must be a whole number from 1 to 1000' }),
      },
    },
  },
};
