import {
  DETAILS_MAX,
  ERROR_CODES,
  ERRORS,
  type ErrorCode,
  type ErrorDetail,
  errorEnvelope,
} from '../contracts/errors.ts';
import type { JsonSchema } from '../contracts/json-schema.ts';
import { UNCACHED } from '../http/headers.ts';
import type { OperationDescription } from './operation.ts';

/** A generated id, used in examples. */
export const EXAMPLE_ULID = '01KE1B3Q0D5W8X2Y4Z6A7C9E1G';

/** Returns the error envelope of an example. */
export function exampleError(code: ErrorCode, ...details: ErrorDetail[]): JsonSchema {
  return { ...errorEnvelope(EXAMPLE_ULID, code, details) };
}

/** The codes of the checks before an operation that needs an API key, and of failures of the service. */
const CHECKS: readonly ErrorCode[] = ['400-01', '401-01', '403-01', '404-01', '429-01', '500-01', '503-01'];
const BODY_CHECKS: readonly ErrorCode[] = ['413-01'];

/** Returns the error codes that an operation returns, in the order of the error table. */
export function errorCodes({ scope, body, refusals = [] }: OperationDescription): readonly ErrorCode[] {
  if (scope === undefined) return [];
  const codes = new Set([...CHECKS, ...(body ? BODY_CHECKS : []), ...refusals]);
  return ERROR_CODES.filter((code) => codes.has(code));
}

/** The meaning of each code for most operations. */
const MEANINGS: Readonly<Record<ErrorCode, string>> = {
  '400-01': 'The path, the query or a header is malformed.',
  '401-01': 'No valid key: a header is missing, unknown, wrong, expired or revoked.',
  '403-01': "The key lacks the operation's scope, or its tenant is disabled.",
  '404-01': 'The path or method does not exist.',
  '409-01': 'The id was accepted before with other content. Use a new id.',
  '413-01': 'The body is too large, as sent or after gunzip.',
  '422-01': 'The JSON is invalid; `details` names the member.',
  '429-01':
    'Over a rate of the tenant or the key, the daily quota, or the bytes of open dead letters; `details` names the limit. Nothing is accepted. ' +
    'Retry after `Retry-After` seconds.',
  '500-01': 'A fault of the service, logged with the request id.',
  '503-01':
    'It is unknown whether the records are stored. Retry after `Retry-After` seconds, with the same ids.',
};
const BODY_UNREADABLE = 'The body is not one JSON object in UTF-8 with `Content-Type: application/json`.';

/** Returns the description of an error code for callers of an operation. */
export function errorMeaning(code: ErrorCode, { ownErrors, body }: OperationDescription): string {
  return ownErrors?.[code]?.meaning ?? (code === '400-01' && body ? BODY_UNREADABLE : MEANINGS[code]);
}

/** Returns the error envelope that is shown for a code without an example in the operation. */
export function usualError(code: ErrorCode, operation: OperationDescription): JsonSchema {
  return exampleError(code, ...(operation.ownErrors?.[code]?.details ?? usualDetails(code, operation)));
}

function usualDetails(code: ErrorCode, { scope, body }: OperationDescription): readonly ErrorDetail[] {
  switch (code) {
    case '400-01':
      return body
        ? [{ path: 'content-type', message: 'must be application/json, its charset utf-8' }]
        : [{ path: 'request', message: 'headers are larger than 16 KiB' }];
    case '403-01':
      return [{ path: 'service-api-id', message: `the key lacks the scope ${scope}` }];
    case '413-01':
      return [{ path: 'body', message: `must be at most ${body!.bytesMax} bytes` }];
    case '429-01':
      return [{ path: 'requests', message: 'requests of one operation are limited to 1000 per second' }];
    default:
      return [];
  }
}

export const ERROR_SCHEMA: JsonSchema = {
  type: 'object',
  description: 'The answer of every failure.',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['requestId', 'code', 'message'],
      properties: {
        requestId: { type: 'string', description: 'The `x-request-id` of the answer.' },
        code: { type: 'string', enum: ERROR_CODES },
        message: { type: 'string', enum: Object.values(ERRORS).map(({ message }) => message) },
        details: {
          type: 'array',
          description: 'The problems and where they are.',
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

const WITH_RETRY_AFTER: readonly (ErrorCode | undefined)[] = ['429-01', '503-01'];
/** Codes that are returned before limits are checked. */
const BEFORE_LIMITS: readonly (ErrorCode | undefined)[] = ['401-01', '403-01'];

/**
 * Returns the names of the headers of an operation's response to an error code, or of a success.
 */
export function answerHeaders(
  { scope }: OperationDescription,
  code: ErrorCode | undefined,
): readonly string[] {
  const limited = scope !== undefined && !BEFORE_LIMITS.includes(code);
  return [
    ...(scope === undefined ? [] : ['x-request-id', 'Cache-Control', 'Vary']),
    ...(WITH_RETRY_AFTER.includes(code) ? ['Retry-After'] : []),
    ...(limited ? ['RateLimit', 'RateLimit-Policy'] : []),
  ];
}

/** The headers of responses. */
export const ANSWER_HEADERS: JsonSchema = {
  'x-request-id': {
    description: 'Id of the request in logs: the one that was sent if it is valid, else a generated one.',
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
  },
  'Cache-Control': {
    description: 'No cache may store the answer: it belongs to the caller.',
    required: true,
    schema: { type: 'string', const: UNCACHED['cache-control'] },
  },
  Vary: {
    description: 'The headers that the answer depends on.',
    required: true,
    schema: { type: 'string', pattern: `^${UNCACHED.vary}` },
  },
  'Retry-After': {
    description: 'Seconds to wait before sending the request again.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  RateLimit: {
    description:
      'Per checked limit of the caller: what is left (`r`), and the number of seconds until all of it is available ' +
      'again (`t`; in a 429 enough for the request). Omitted without limits.',
    schema: { type: 'string' },
    example: '"requests";r=1999;t=1, "records";r=39000;t=1',
  },
  'RateLimit-Policy': {
    description: 'The same limits: quota `q` per window of `w` seconds. Omitted without limits.',
    schema: { type: 'string' },
    example: '"requests";q=2000;w=2, "records";q=40000;w=2;qu="records"',
  },
};
