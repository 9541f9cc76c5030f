import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription, Operations } from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';
import { CREATE_ERRORS } from '../common-errors.ts';
import { DELIVERY_OPERATIONS } from '../deliveries/openapi.ts';
import { RECOVERY_OPERATIONS } from '../deliveries/openapi-recover.ts';
import { WEBHOOK_CHANGES } from './openapi-changes.ts';
import {
  COMMON,
  ENDPOINT_PARAMETER,
  OF_ONE_ENDPOINT,
  parameters,
  SHOWN_ENDPOINT,
  unknown,
} from './openapi-common.ts';

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
      links: { show: link('show-webhook'), change: link('change-webhook'), delete: link('delete-webhook') },
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
        ...SHOWN_ENDPOINT,
        secret: 'whsec_aSecretThatIsShownOnceAndKeptEncryptedFor1t=',
      },
    },
    refused: {
      summary: 'The URL, a type and a header are invalid',
      body: { url: ' ', eventTypes: ['automation.repyl'], headers: { Host: 'example.com' } },
      status: 422,
      answer: exampleError(
        '422-01',
        { path: 'url', message: 'must not be blank' },
        { path: 'eventTypes[0]', message: 'is not a known type: the nearest is automation.reply' },
        { path: 'headers.Host', message: 'is a header that Sluice sets itself' },
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
  examples: { all: { summary: 'One endpoint', status: 200, answer: { items: [SHOWN_ENDPOINT] } } },
};

const SHOW: OperationDescription = {
  ...COMMON,
  operationId: 'show-webhook',
  summary: 'Show a webhook endpoint',
  description:
    'Without its secret. Also shows how many webhooks wait for it. Its deliveries show each attempt.',
  parameters: [ENDPOINT_PARAMETER],
  answers: { 200: { description: 'The endpoint.', schema: schemaRef('EndpointDetails') } },
  ownErrors: OF_ONE_ENDPOINT,
  examples: {
    known: {
      summary: 'An endpoint',
      parameters,
      status: 200,
      answer: { ...SHOWN_ENDPOINT, waiting: 0, inFlight: 0, nextAttemptAt: null },
    },
    unknown,
  },
};

const DELETE: OperationDescription = {
  ...COMMON,
  operationId: 'delete-webhook',
  summary: 'Delete a webhook endpoint',
  description: 'Sluice sends nothing more to the endpoint, and drops its pending deliveries.',
  parameters: [ENDPOINT_PARAMETER],
  answers: { 204: { description: 'The endpoint is deleted. No body.' } },
  ownErrors: OF_ONE_ENDPOINT,
  examples: { known: { summary: 'An endpoint', parameters, status: 204 }, unknown },
};

export const WEBHOOK_OPERATIONS: Operations = {
  'POST /admin/v1/webhooks': CREATE,
  'GET /admin/v1/webhooks': LIST,
  'GET /admin/v1/webhooks/:endpointId': SHOW,
  ...WEBHOOK_CHANGES,
  ...DELIVERY_OPERATIONS,
  ...RECOVERY_OPERATIONS,
  'DELETE /admin/v1/webhooks/:endpointId': DELETE,
};
