import { OVERLAP_SECONDS_MAX } from '../../../shared/contracts/api-keys.ts';
import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { EVERY_SCOPE } from '../../../shared/contracts/scopes.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type {
  OperationDescription,
  OperationParameter,
  Operations,
} from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';
import { MALFORMED_PATH } from '../../request/path-id.ts';
import { CREATE_ERRORS, DATABASE_ERRORS } from '../common-errors.ts';
import { TOO_MANY } from './create.ts';

const KEY_ID: OperationParameter = {
  name: 'apiKeyId',
  in: 'path',
  description: 'Id of the key.',
  schema: { type: 'string', minLength: 1 },
};
const COMMON = { tag: 'keys', scope: 'keys:manage', ownErrors: DATABASE_ERRORS } as const;
const OF_ONE_KEY = {
  ...DATABASE_ERRORS,
  '400-01': { details: [MALFORMED_PATH] },
  '404-01': { meaning: 'Your tenant has no such key, or the path or method does not exist.' },
};
const parameters = { apiKeyId: EXAMPLE_ULID };
const unknown = {
  summary: 'The tenant has no such key',
  parameters: { apiKeyId: 'no-such-key' },
  status: 404,
  answer: exampleError('404-01'),
};
const EXAMPLE_SECRET = 'a-secret-of-43-characters-that-is-shown-once';
const SHOWN = {
  apiKeyId: EXAMPLE_ULID,
  name: 'nightly import',
  scopes: ['agent-metadata:write'],
  rate: 50,
  state: 'valid',
  createdAt: '2026-01-02T03:04:05.678Z',
  createdBy: EXAMPLE_ULID,
  expiresAt: '2261-01-01T00:00:00.000Z',
  revokedAt: null,
  lastUsedAt: null,
  previousSecretValidUntil: null,
};

/** An example of the caller's own key. */
const OWN = { ...SHOWN, name: null, scopes: [EVERY_SCOPE], rate: null, createdBy: null, expiresAt: null };

function link(operationId: string): JsonSchema {
  return { operationId, parameters: { apiKeyId: '$response.body#/apiKeyId' } };
}

const CREATE: OperationDescription = {
  ...COMMON,
  operationId: 'create-key',
  summary: 'Create an API key of the same tenant',
  description:
    "The key is valid immediately on every gateway. It can do no more than the caller's own key: no other scope (only a key with `*` can grant " +
    '`*`), and no later expiry. A key with its own rate creates no keys. The limits of a tenant apply to all of its keys together. Needs ' +
    "the newest secret of the caller's key.",
  body: { schema: schemaRef('NewKey'), bytesMax: BODY_BYTES_MAX },
  answers: {
    201: {
      description: 'The key, with its secret, which no other answer shows.',
      schema: schemaRef('CreatedKey'),
      links: { show: link('show-key'), rotate: link('rotate-key'), revoke: link('revoke-key') },
    },
  },
  refusals: ['409-01', '422-01'],
  ownErrors: {
    ...CREATE_ERRORS,
    '403-01': {
      meaning:
        'Your key lacks the scope `keys:manage`, your tenant is disabled, or the new key could do more than your own: `details` say what.',
      details: [{ path: 'scopes', message: 'your key lacks the scope analytics:write' }],
    },
    '409-01': { meaning: 'The tenant has the maximum number of valid keys.', details: [TOO_MANY] },
  },
  examples: {
    full: {
      summary: 'A key for one operation, with a name, an expiry and a rate',
      body: {
        name: SHOWN.name,
        scopes: SHOWN.scopes,
        rate: SHOWN.rate,
        expiresAt: '2261-01-01T00:00:00Z',
      },
      status: 201,
      answer: { ...SHOWN, apiKeySecret: EXAMPLE_SECRET },
    },
    refused: {
      summary: 'The scopes are empty',
      body: { scopes: [] },
      status: 422,
      answer: exampleError('422-01', { path: 'scopes', message: 'must have at least one entry' }),
    },
  },
};

const LIST: OperationDescription = {
  ...COMMON,
  operationId: 'list-keys',
  summary: "List the tenant's API keys",
  description:
    'Oldest first, without their secrets, including expired and revoked ones. Each parameter at most once; any other is 400-01.',
  parameters: [
    {
      name: 'limit',
      in: 'query',
      description: 'Maximum number of keys.',
      schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
    },
    {
      name: 'after',
      in: 'query',
      description: 'The `next` of the previous page.',
      schema: { type: 'string', pattern: '^[!-~]{1,128}$' },
    },
  ],
  answers: { 200: { description: 'A page of keys.', schema: schemaRef('Keys') } },
  examples: {
    all: {
      summary: "The caller's key, and another one",
      status: 200,
      answer: {
        items: [OWN, SHOWN],
      },
    },
    page: {
      summary: 'The first page, of one key',
      parameters: { limit: '1' },
      status: 200,
      answer: { items: [OWN], next: EXAMPLE_ULID },
    },
    after: {
      summary: 'The tenant has no such key',
      parameters: { after: 'no-such-key' },
      status: 400,
      answer: exampleError('400-01', { path: 'after', message: 'must be the next of an earlier answer' }),
    },
  },
};

const SHOW: OperationDescription = {
  ...COMMON,
  operationId: 'show-key',
  summary: 'Show an API key',
  description: 'Without its secret.',
  parameters: [KEY_ID],
  answers: { 200: { description: 'The key.', schema: schemaRef('Key') } },
  ownErrors: OF_ONE_KEY,
  examples: { known: { summary: 'A key', parameters, status: 200, answer: SHOWN }, unknown },
};

const ROTATE: OperationDescription = {
  ...COMMON,
  operationId: 'rotate-key',
  summary: 'Rotate the secret of an API key',
  description:
    'The new secret is valid immediately; the previous one for another `overlapSeconds` (default 1 day; 0 ends it immediately). While two secrets are valid, ' +
    "only 0 rotates again, and ends both. Refused for a key that can do more than the caller's own; a key with its own rate " +
    "rotates only itself. Needs the newest secret of the caller's key.",
  parameters: [KEY_ID],
  body: { schema: schemaRef('KeyRotation'), bytesMax: BODY_BYTES_MAX },
  answers: {
    200: { description: 'The new secret, which no other answer shows.', schema: schemaRef('RotatedKey') },
  },
  refusals: ['409-01', '422-01'],
  ownErrors: {
    ...OF_ONE_KEY,
    '400-01': {
      meaning:
        'The body is not one JSON object in UTF-8 with `Content-Type: application/json`, or the path is malformed.',
    },
    '403-01': {
      meaning:
        'Your key lacks the scope `keys:manage`, your tenant is disabled, or the key can do more than your own: `details` say what.',
      details: [{ path: 'scopes', message: 'your key lacks the scope analytics:write' }],
    },
    '409-01': {
      meaning:
        'The key is revoked or expired, or it has two valid secrets and `overlapSeconds` is not 0: `details` say which.',
      details: [{ path: 'apiKeyId', message: 'the key is revoked' }],
    },
    '503-01': {
      meaning:
        'The database is unavailable. Retry after `Retry-After` seconds. If the retry is 409-01, the first request did create a ' +
        'secret, and `overlapSeconds` 0 replaces it.',
    },
  },
  examples: {
    withoutOverlap: {
      summary: 'The previous secret ends immediately',
      parameters,
      body: { overlapSeconds: 0 },
      status: 200,
      answer: { apiKeyId: EXAMPLE_ULID, apiKeySecret: EXAMPLE_SECRET, previousSecretValidUntil: null },
    },
    refused: {
      summary: 'The overlap is out of range',
      parameters,
      body: { overlapSeconds: OVERLAP_SECONDS_MAX + 1 },
      status: 422,
      answer: exampleError('422-01', {
        path: 'overlapSeconds',
        message: `must be a whole number from 0 to ${OVERLAP_SECONDS_MAX}`,
      }),
    },
    unknown: { ...unknown, body: {} },
  },
};

const REVOKE: OperationDescription = {
  ...COMMON,
  operationId: 'revoke-key',
  summary: 'Revoke an API key',
  description:
    'Permanent: the key is refused immediately on the admin listener, and on every gateway within 5 seconds. A key may revoke any key of its tenant, ' +
    "also one that can do more. Needs the newest secret of the caller's key. With `disable=created` the keys that it created, " +
    'directly or indirectly, are revoked too, and the webhook endpoints that any of them created are disabled until somebody enables them again.',
  parameters: [
    KEY_ID,
    {
      name: 'disable',
      in: 'query',
      description:
        'Also revokes the keys, and disables the webhook endpoints, that the key created. The only parameter, at most once.',
      schema: { type: 'string', enum: ['created'] },
    },
  ],
  answers: {
    200: {
      description: 'The key and the keys that it created are revoked; their webhook endpoints are disabled.',
      schema: schemaRef('RevokedKeys'),
    },
    204: { description: 'The key is revoked, without `disable`. No body.' },
  },
  ownErrors: OF_ONE_KEY,
  examples: {
    known: { summary: 'A key', parameters, status: 204 },
    created: {
      summary: 'A key that was already revoked and created nothing',
      parameters: { ...parameters, disable: 'created' },
      status: 200,
      answer: { revokedKeys: [], disabledEndpoints: [] },
    },
    unknown,
  },
};

export const KEY_OPERATIONS: Operations = {
  'POST /admin/v1/keys': CREATE,
  'GET /admin/v1/keys': LIST,
  'GET /admin/v1/keys/:apiKeyId': SHOW,
  'POST /admin/v1/keys/:apiKeyId/rotate': ROTATE,
  'DELETE /admin/v1/keys/:apiKeyId': REVOKE,
};
