import { keySchema, OVERLAP_SECONDS_MAX, rotationSchema } from '../../../shared/contracts/api-keys.ts';
import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { EVERY_SCOPE, SCOPES } from '../../../shared/contracts/scopes.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type {
  OperationDescription,
  OperationParameter,
  Operations,
} from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/bounds.ts';
import { MALFORMED_PATH } from '../../request/path-id.ts';
import { MADE_OR_NOT, UNAVAILABLE } from '../unavailable-openapi.ts';
import { TOO_MANY } from './create.ts';

const ID: JsonSchema = { type: 'string', description: 'What the header service-api-id carries.' };
const SECRET: JsonSchema = {
  type: 'string',
  description: 'What the header service-api-secret carries. Shown this once.',
};
const TIME_OR_NULL: JsonSchema = { type: ['string', 'null'], format: 'date-time' };
const KEY_MEMBERS: Readonly<Record<string, JsonSchema>> = {
  apiKeyId: ID,
  name: { type: ['string', 'null'] },
  scopes: { type: 'array', items: { type: 'string', enum: [EVERY_SCOPE, ...SCOPES] } },
  rate: {
    type: ['integer', 'null'],
    description: "Requests per second of each operation with this key; null: the tenant's rate alone.",
  },
  state: { type: 'string', enum: ['valid', 'rotating', 'expired', 'revoked'] },
  createdAt: { type: 'string', format: 'date-time' },
  createdBy: {
    type: ['string', 'null'],
    description: 'The key that made it; null: whoever runs the service did, or it is older than this member.',
  },
  expiresAt: { ...TIME_OR_NULL, description: 'When it ends by itself; null: never.' },
  revokedAt: TIME_OR_NULL,
  lastUsedAt: { ...TIME_OR_NULL, description: 'Right to about a minute; null: not used yet.' },
  previousSecretValidUntil: {
    ...TIME_OR_NULL,
    description: 'Time until which the previous secret is valid too; null: it is not.',
  },
};

export const KEY_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  NewKey: jsonSchemaOf(keySchema),
  KeyRotation: jsonSchemaOf(rotationSchema),
  CreatedKey: {
    type: 'object',
    required: ['apiKeySecret', ...Object.keys(KEY_MEMBERS)],
    properties: { ...KEY_MEMBERS, apiKeySecret: SECRET },
  },
  Key: { type: 'object', required: Object.keys(KEY_MEMBERS), properties: KEY_MEMBERS },
  Keys: {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: schemaRef('Key') },
      next: { type: 'string', description: 'The `after` of the next page. Only there when there is one.' },
    },
  },
  RevokedKeys: {
    type: 'object',
    required: ['revokedKeys', 'disabledEndpoints'],
    properties: {
      revokedKeys: {
        type: 'array',
        items: ID,
        description: 'Keys that this request revoked, the one that it names included.',
      },
      disabledEndpoints: {
        type: 'array',
        items: { type: 'string' },
        description: 'Webhook endpoints that this request disabled.',
      },
    },
  },
  RotatedKey: {
    type: 'object',
    required: ['apiKeyId', 'apiKeySecret', 'previousSecretValidUntil'],
    properties: {
      apiKeyId: ID,
      apiKeySecret: SECRET,
      previousSecretValidUntil: KEY_MEMBERS.previousSecretValidUntil,
    },
  },
};

const KEY_ID: OperationParameter = {
  name: 'apiKeyId',
  in: 'path',
  description: 'Id of the key.',
  schema: { type: 'string', minLength: 1 },
};
const COMMON = { tag: 'keys', scope: 'keys:manage', ownErrors: UNAVAILABLE } as const;
const OF_ONE_KEY = {
  ...UNAVAILABLE,
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

/** The key that asks. */
const OWN = { ...SHOWN, name: null, scopes: [EVERY_SCOPE], rate: null, createdBy: null, expiresAt: null };

function link(operationId: string): JsonSchema {
  return { operationId, parameters: { apiKeyId: '$response.body#/apiKeyId' } };
}

const CREATE: OperationDescription = {
  ...COMMON,
  operationId: 'create-key',
  summary: 'Create a key of the same tenant',
  description:
    "The key is valid immediately on every gateway. It can do no more than the caller's own key: no other scope (only a key with `*` can give " +
    '`*`), no later end; a key that has a rate of its own makes none. Limits of the tenant are for all of its keys together. Needs ' +
    'the newest secret of the key that asks.',
  body: { schema: schemaRef('NewKey'), bytesMax: BODY_BYTES_MAX },
  answers: {
    201: {
      description: 'The key, with its secret this once.',
      schema: schemaRef('CreatedKey'),
      links: { show: link('show-key'), rotate: link('rotate-key'), revoke: link('revoke-key') },
    },
  },
  errors: [
    '400-01',
    '401-01',
    '403-01',
    '404-01',
    '409-01',
    '413-01',
    '422-01',
    '429-01',
    '500-01',
    '503-01',
  ],
  ownErrors: {
    ...MADE_OR_NOT,
    '403-01': {
      meaning:
        'Your key lacks the scope `keys:manage`, your tenant is disabled, or the new key would have more than your own: `details` say what.',
      details: [{ path: 'scopes', message: 'your key lacks the scope analytics:write' }],
    },
    '409-01': { meaning: 'The tenant has as many keys as this interface makes.', details: [TOO_MANY] },
  },
  examples: {
    full: {
      summary: 'A key for one operation, with a name, an end and a rate',
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
      summary: 'It has no scope',
      body: { scopes: [] },
      status: 422,
      answer: exampleError('422-01', { path: 'scopes', message: 'must have at least one entry' }),
    },
  },
};

const LIST: OperationDescription = {
  ...COMMON,
  operationId: 'list-keys',
  summary: "List the tenant's keys",
  description:
    'Oldest first, without their secrets; those that ended too. No other parameters, each at most once.',
  parameters: [
    {
      name: 'limit',
      in: 'query',
      description: 'Keys at most.',
      schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
    },
    {
      name: 'after',
      in: 'query',
      description: 'The `next` of an earlier answer.',
      schema: { type: 'string', pattern: '^[!-~]{1,128}$' },
    },
  ],
  answers: { 200: { description: 'A page of keys.', schema: schemaRef('Keys') } },
  errors: ['400-01', '401-01', '403-01', '404-01', '429-01', '500-01', '503-01'],
  examples: {
    all: {
      summary: 'The key that asks, and another one',
      status: 200,
      answer: {
        items: [OWN, SHOWN],
      },
    },
    page: {
      summary: 'The first one only',
      parameters: { limit: '1' },
      status: 200,
      answer: { items: [OWN], next: EXAMPLE_ULID },
    },
    after: {
      summary: 'A key that the tenant does not have',
      parameters: { after: 'no-such-key' },
      status: 400,
      answer: exampleError('400-01', { path: 'after', message: 'must be the next of an earlier answer' }),
    },
  },
};

const SHOW: OperationDescription = {
  ...COMMON,
  operationId: 'show-key',
  summary: 'Show a key',
  description: 'Without its secret.',
  parameters: [KEY_ID],
  answers: { 200: { description: 'The key.', schema: schemaRef('Key') } },
  errors: ['400-01', '401-01', '403-01', '404-01', '429-01', '500-01', '503-01'],
  ownErrors: OF_ONE_KEY,
  examples: { known: { summary: 'A key', parameters, status: 200, answer: SHOWN }, unknown },
};

const ROTATE: OperationDescription = {
  ...COMMON,
  operationId: 'rotate-key',
  summary: 'Give a key a new secret',
  description:
    'The new secret is valid immediately; the previous one for another `overlapSeconds` (default 1 day; 0 ends it immediately). While two are valid, ' +
    "only 0 rotates again: it ends both. Not for a key that can do more than the caller's own; a key that has a rate of its own " +
    'rotates only itself. Needs the newest secret of the key that asks.',
  parameters: [KEY_ID],
  body: { schema: schemaRef('KeyRotation'), bytesMax: BODY_BYTES_MAX },
  answers: { 200: { description: 'The new secret, this once.', schema: schemaRef('RotatedKey') } },
  errors: [
    '400-01',
    '401-01',
    '403-01',
    '404-01',
    '409-01',
    '413-01',
    '422-01',
    '429-01',
    '500-01',
    '503-01',
  ],
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
        'The key is revoked or expired, or two secrets of it are valid and `overlapSeconds` is not 0: `details` say which.',
      details: [{ path: 'apiKeyId', message: 'the key is revoked' }],
    },
    '503-01': {
      meaning:
        'The database cannot be asked now. Try again after `Retry-After` seconds; if that is 409-01, there is a new secret that ' +
        'nobody knows, and `overlapSeconds` 0 makes another one.',
    },
  },
  examples: {
    atOnce: {
      summary: 'The secret of before is invalid from now on',
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
  summary: 'Revoke a key',
  description:
    'Refused for ever: here from now on, at every gateway within 5 seconds. Any key of the tenant, those included that can do more ' +
    'than your own: nothing is given away. Needs the newest secret of the key that asks. With `disable=created` the keys that it made ' +
    'are revoked too, those that these made and so on, and the webhook endpoints that any of them made are disabled for ever.',
  parameters: [
    KEY_ID,
    {
      name: 'disable',
      in: 'query',
      description: 'Whether what the key made ends too; the only parameter, given once.',
      schema: { type: 'string', enum: ['created'] },
    },
  ],
  answers: {
    200: { description: 'It is revoked, and what it made ended.', schema: schemaRef('RevokedKeys') },
    204: { description: 'It is revoked, without `disable`. No body.' },
  },
  errors: ['400-01', '401-01', '403-01', '404-01', '429-01', '500-01', '503-01'],
  ownErrors: OF_ONE_KEY,
  examples: {
    known: { summary: 'A key', parameters, status: 204 },
    created: {
      summary: 'A key that was revoked before, and what it made: nothing',
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
