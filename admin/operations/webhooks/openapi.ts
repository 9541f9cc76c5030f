import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { endpointSchema } from '../../../shared/contracts/webhook-endpoints.ts';
import { WEBHOOK_TYPES } from '../../../shared/contracts/webhooks.ts';
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
import { DELIVERY_OPERATIONS } from '../deliveries/openapi.ts';
import { RECOVERY_OPERATIONS } from '../deliveries/openapi-recover.ts';

const ID: JsonSchema = { type: 'string', description: 'Id of the endpoint.' };
const TYPES: JsonSchema = {
  type: ['array', 'null'],
  items: { type: 'string', enum: WEBHOOK_TYPES },
  description: 'The types that the endpoint receives; null: all, including those of later releases.',
};

export const WEBHOOK_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  NewEndpoint: newEndpoint(),
  CreatedEndpoint: {
    type: 'object',
    required: ['endpointId', 'url', 'eventTypes', 'secret', 'createdAt'],
    properties: {
      endpointId: ID,
      url: { type: 'string' },
      eventTypes: TYPES,
      secret: {
        type: 'string',
        pattern: '^whsec_',
        description: 'Signs webhooks. Shown only in this answer.',
      },
      createdAt: { type: 'string', format: 'date-time' },
    },
  },
  Endpoint: {
    type: 'object',
    required: ['endpointId', 'url', 'eventTypes', 'state', 'createdAt', 'createdBy'],
    properties: {
      endpointId: ID,
      url: { type: 'string' },
      eventTypes: TYPES,
      state: { type: 'string', enum: ['enabled', 'disabled'] },
      disabledReason: {
        type: 'string',
        description:
          '`gone`: the endpoint answered 410. `failing`: it failed for 5 days. `revoked`: the key that created it was revoked.',
      },
      createdAt: { type: 'string', format: 'date-time' },
      createdBy: {
        type: ['string', 'null'],
        description:
          'The API key that created the endpoint; null: an operator created it, or the endpoint is older than this member.',
      },
    },
  },
  Endpoints: {
    type: 'object',
    required: ['items'],
    properties: { items: { type: 'array', items: schemaRef('Endpoint') } },
  },
};

/**
 * Returns the schema of a new endpoint with the format of its URL, which the operation checks
 * later.
 */
function newEndpoint(): JsonSchema {
  const schema = jsonSchemaOf(endpointSchema);
  const { url, ...others } = schema.properties as Record<'url', JsonSchema>;
  return { ...schema, properties: { url: { ...url, format: 'uri' }, ...others } };
}

const ENDPOINT_ID: OperationParameter = {
  name: 'endpointId',
  in: 'path',
  description: 'Id of the endpoint.',
  schema: { type: 'string', minLength: 1 },
};
const COMMON = { tag: 'webhooks', scope: 'webhooks:manage', ownErrors: DATABASE_ERRORS } as const;
const OF_ONE_ENDPOINT = {
  ...DATABASE_ERRORS,
  '400-01': { details: [MALFORMED_PATH] },
  '404-01': { meaning: 'Your tenant has no such endpoint, or the path or method does not exist.' },
};
const parameters = { endpointId: EXAMPLE_ULID };
const unknown = {
  summary: 'The tenant has no such endpoint',
  parameters: { endpointId: 'no-such-endpoint' },
  status: 404,
  answer: exampleError('404-01'),
};
const SHOWN = {
  endpointId: EXAMPLE_ULID,
  url: 'http://127.0.0.1:9000/',
  eventTypes: null,
  state: 'enabled',
  createdAt: '2026-01-02T03:04:05.678Z',
  createdBy: EXAMPLE_ULID,
};

function link(operationId: string): JsonSchema {
  return { operationId, parameters: { endpointId: '$response.body#/endpointId' } };
}

const CREATE: OperationDescription = {
  ...COMMON,
  operationId: 'create-webhook',
  summary: 'Add a webhook endpoint',
  description:
    'Its URL must be https to a public address on port 443 or 8443, unless the setting SLUICE_WEBHOOK_ALLOW permits others ' +
    '(`npm start` permits loopback). A tenant may have 20 endpoints, unless the setting SLUICE_WEBHOOK_ENDPOINTS_MAX ' +
    'sets another limit.',
  body: { schema: schemaRef('NewEndpoint'), bytesMax: BODY_BYTES_MAX },
  answers: {
    201: {
      description: 'The endpoint, with its secret, which no other answer shows.',
      schema: schemaRef('CreatedEndpoint'),
      links: { show: link('show-webhook'), delete: link('delete-webhook') },
    },
  },
  refusals: ['422-01'],
  ownErrors: CREATE_ERRORS,
  examples: {
    minimal: {
      summary: 'An endpoint for all types',
      body: { url: 'http://127.0.0.1:9000/' },
      status: 201,
      answer: {
        endpointId: EXAMPLE_ULID,
        url: 'http://127.0.0.1:9000/',
        eventTypes: null,
        secret: 'whsec_aSecretThatIsShownOnceAndKeptEncryptedFor1t=',
        createdAt: '2026-01-02T03:04:05.678Z',
      },
    },
    refused: {
      summary: 'The URL and the types are invalid',
      body: { url: ' ', eventTypes: [] },
      status: 422,
      answer: exampleError(
        '422-01',
        { path: 'url', message: 'must not be blank' },
        { path: 'eventTypes', message: 'must have at least one entry; omit it for all types' },
      ),
    },
  },
};

const LIST: OperationDescription = {
  ...COMMON,
  operationId: 'list-webhooks',
  summary: "List the tenant's webhook endpoints",
  description: 'Without their secrets.',
  answers: { 200: { description: 'The endpoints.', schema: schemaRef('Endpoints') } },
  examples: { all: { summary: 'One endpoint', status: 200, answer: { items: [SHOWN] } } },
};

const SHOW: OperationDescription = {
  ...COMMON,
  operationId: 'show-webhook',
  summary: 'Show a webhook endpoint',
  description: 'Without its secret.',
  parameters: [ENDPOINT_ID],
  answers: { 200: { description: 'The endpoint.', schema: schemaRef('Endpoint') } },
  ownErrors: OF_ONE_ENDPOINT,
  examples: { known: { summary: 'An endpoint', parameters, status: 200, answer: SHOWN }, unknown },
};

const DELETE: OperationDescription = {
  ...COMMON,
  operationId: 'delete-webhook',
  summary: 'Delete a webhook endpoint',
  description: 'Sluice sends nothing more to the endpoint, and drops its pending deliveries.',
  parameters: [ENDPOINT_ID],
  answers: { 204: { description: 'The endpoint is deleted. No body.' } },
  ownErrors: OF_ONE_ENDPOINT,
  examples: { known: { summary: 'An endpoint', parameters, status: 204 }, unknown },
};

export const WEBHOOK_OPERATIONS: Operations = {
  'POST /admin/v1/webhooks': CREATE,
  'GET /admin/v1/webhooks': LIST,
  'GET /admin/v1/webhooks/:endpointId': SHOW,
  ...DELIVERY_OPERATIONS,
  ...RECOVERY_OPERATIONS,
  'DELETE /admin/v1/webhooks/:endpointId': DELETE,
};
