import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { WEBHOOK_TYPES } from '../../../shared/contracts/webhooks.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type {
  OperationDescription,
  OperationParameter,
  Operations,
} from '../../../shared/openapi/operation.ts';
import { DELIVERY_STATES } from '../../../shared/postgres/deliveries/delivery.ts';
import { DELIVERIES_SEARCHED_MAX } from '../../../shared/postgres/deliveries/delivery-stream.ts';
import { UNKNOWN_CURSOR } from '../../request/cursor.ts';
import { MALFORMED_PATH } from '../../request/path-id.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { REVERSED_RANGE } from './list.ts';

export const OF_DELIVERIES = { tag: 'deliveries', scope: 'webhooks:manage' } as const;
const TIME: JsonSchema = { type: 'string', format: 'date-time' };

export function pathId(name: string, description: string): OperationParameter {
  return { name, in: 'path', description, schema: { type: 'string', minLength: 1 } };
}

function filter(name: string, description: string, schema: JsonSchema): OperationParameter {
  return { name, in: 'query', description, schema };
}

export function ofOne(what: string) {
  return {
    ...DATABASE_ERRORS,
    '400-01': { details: [MALFORMED_PATH] },
    '404-01': { meaning: `Your tenant has no such ${what}, or the path or method does not exist.` },
  };
}

const ID = { type: 'string', minLength: 1 } as const;
export const NO_ENDPOINT = {
  summary: 'The tenant has no such endpoint',
  parameters: { endpointId: 'no-such-endpoint' },
  status: 404,
  answer: exampleError('404-01'),
};

const LIST: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'list-deliveries',
  summary: "List an endpoint's deliveries",
  description:
    'Newest first, by the time at which the webhook was stored. With several filters, each must match. A request with a filter ' +
    `searches about ${DELIVERIES_SEARCHED_MAX} deliveries, so that a page can be short, or empty, although \`next\` continues ` +
    'the list. A delivery that ends between two pages is listed once. Each parameter at most once.',
  parameters: [
    pathId('endpointId', 'Id of the endpoint.'),
    filter('state', 'Only deliveries in this state.', { type: 'string', enum: DELIVERY_STATES }),
    filter('type', 'Only webhooks of this type.', { type: 'string', enum: WEBHOOK_TYPES }),
    filter('from', 'Only webhooks that were stored from this time on.', TIME),
    filter('to', 'Only webhooks that were stored before this time.', TIME),
    filter('conversation', 'Only webhooks of this conversation: the id within which they are ordered.', ID),
    filter(
      'recordId',
      'Only webhooks about the record with this eventId or messageId. Nothing is found once the id has expired, usually ' +
        'after 30 days.',
      ID,
    ),
    filter('limit', 'Maximum number of deliveries.', {
      type: 'integer',
      minimum: 1,
      maximum: 1000,
      default: 100,
    }),
    filter('cursor', 'The `next` of the previous page, with the same filters.', {
      type: 'string',
      pattern: '^[a-zA-Z0-9_-]+$',
    }),
  ],
  answers: { 200: { description: 'A page of deliveries.', schema: schemaRef('Deliveries') } },
  refusals: ['422-01'],
  ownErrors: {
    ...ofOne('endpoint'),
    '400-01': { meaning: 'A parameter is unknown or invalid, or the cursor is of another list.' },
    '422-01': { meaning: '`to` is not after `from`.' },
  },
  examples: {
    none: {
      summary: 'No delivery has failed',
      parameters: { endpointId: EXAMPLE_ULID, state: 'failed' },
      status: 200,
      answer: { items: [] },
    },
    reversed: {
      summary: 'The range is reversed',
      parameters: { endpointId: EXAMPLE_ULID, from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' },
      status: 422,
      answer: exampleError('422-01', REVERSED_RANGE),
    },
    cursor: {
      summary: 'The cursor is not of this list',
      parameters: { endpointId: EXAMPLE_ULID, cursor: 'another' },
      status: 400,
      answer: exampleError('400-01', UNKNOWN_CURSOR),
    },
    unknown: NO_ENDPOINT,
  },
};

export const DELIVERY_ID = pathId('deliveryId', 'The `deliveryId` of a list.');
export const NO_DELIVERY = {
  summary: 'The tenant has no such delivery',
  parameters: { deliveryId: '01KE1B3Q0D0000000000000000.01KE1B3Q0D0000000000000000.mk0000' },
  status: 404,
  answer: exampleError('404-01'),
};

const SHOW: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'show-delivery',
  summary: 'Show a delivery with its body and attempts',
  description:
    'What was sent and what came back. Never shows signatures, secrets or the custom headers of the endpoint.',
  parameters: [DELIVERY_ID],
  answers: { 200: { description: 'The delivery.', schema: schemaRef('DeliveryDetails') } },
  ownErrors: ofOne('delivery'),
  examples: { unknown: NO_DELIVERY },
};

export const DELIVERY_OPERATIONS: Operations = {
  'GET /admin/v1/webhooks/:endpointId/deliveries': LIST,
  'GET /admin/v1/deliveries/:deliveryId': SHOW,
};
