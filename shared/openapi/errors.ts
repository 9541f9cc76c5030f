import { DETAILS_MAX, ERRORS, type ErrorCode, type ErrorDetail, errorEnvelope } from '../contracts/errors.ts';
import type { JsonSchema } from '../contracts/json-schema.ts';

/** An id that the service makes, in examples. */
export const EXAMPLE_ULID = '01KE1B3Q0D5W8X2Y4Z6A7C9E1G';

/** The error envelope of an example. */
export function exampleError(code: ErrorCode, ...details: ErrorDetail[]): JsonSchema {
  return { ...errorEnvelope(EXAMPLE_ULID, code, details) };
}

/** What each code means for the caller. */
export const ERROR_MEANINGS: Readonly<Record<ErrorCode, string>> = {
  '400-01':
    'The body is not one JSON object in UTF-8 with `Content-Type: application/json`, or the path or the query is malformed.',
  '401-01': 'No valid key: a header is missing, unknown, wrong, expired or revoked.',
  '403-01': "The key lacks the operation's scope, or its tenant is disabled.",
  '404-01': 'Nothing is known under this id, or the path or method does not exist.',
  '409-01': 'The id was accepted before with other content. Send a new id.',
  '413-01': 'The body is larger than allowed, as sent or after gunzip.',
  '422-01': 'The JSON breaks a rule; `details` names it.',
  '429-01': 'Over a limit or the daily quota. Send it again after `Retry-After` seconds.',
  '500-01': 'A fault of the service, logged with the request id.',
  '503-01': 'Not known to be stored. Send it again after `Retry-After` seconds, with the same ids.',
};

export const ERROR_SCHEMA: JsonSchema = {
  type: 'object',
  description: 'What every failure answers.',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['requestId', 'code', 'message'],
      properties: {
        requestId: { type: 'string', description: 'The `x-request-id` of the answer.' },
        code: { type: 'string', enum: Object.keys(ERRORS) },
        message: { type: 'string', enum: Object.values(ERRORS).map(({ message }) => message) },
        details: {
          type: 'array',
          description: 'What is wrong, and where.',
          maxItems: DETAILS_MAX,
          items: {
            type: 'object',
            required: ['path', 'message'],
            properties: {
              path: { type: 'string', description: 'Member, parameter or header, or `body`.' },
              message: { type: 'string' },
            },
          },
        },
      },
    },
  },
};

const HEADERS: Readonly<Partial<Record<ErrorCode, readonly string[]>>> = {
  '429-01': ['Retry-After', 'RateLimit', 'RateLimit-Policy'],
  '503-01': ['Retry-After'],
};

/** Names of the headers of an error, besides those that every answer has. */
export function errorHeaders(code: ErrorCode): readonly string[] {
  return HEADERS[code] ?? [];
}

/** The headers of answers. */
export const ANSWER_HEADERS: JsonSchema = {
  'x-request-id': {
    description: 'Names the request in logs: the one that was sent where it can be taken, else a new one.',
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
  },
  'Retry-After': {
    description: 'Seconds to wait before sending the request again.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  RateLimit: { description: 'What is left of the limit that was met.', schema: { type: 'string' } },
  'RateLimit-Policy': { description: 'The limit that was met.', schema: { type: 'string' } },
};
