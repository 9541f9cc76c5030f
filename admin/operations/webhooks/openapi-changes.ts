import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription, Operations } from '../../../shared/openapi/operation.ts';
import { RETRIES_DUE_MAX } from '../../../shared/postgres/deliveries/make-retries-due.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';
import { disabledText } from './change.ts';
import {
  COMMON,
  ENDPOINT_PARAMETER,
  OF_ONE_ENDPOINT,
  parameters,
  SHOWN_ENDPOINT,
  unknown,
} from './openapi-common.ts';

const IN_A_SECOND = 'Takes effect within a second, except for webhooks in flight.';
const MALFORMED = {
  meaning:
    'The body is not one JSON object in UTF-8 with `Content-Type: application/json`, or the path is malformed.',
};
const RESUMED = {
  200: {
    description: 'The endpoint, and how many webhooks are sent now.',
    schema: schemaRef('ResumedEndpoint'),
  },
};
const disabled = (meaning: string) => ({
  meaning,
  details: [{ path: 'endpointId', message: disabledText('disabled because it answered 410') }],
});
const RETRIES_NOW =
  'Webhooks that wait for a retry are due now, oldest first, at the rate of the endpoint and in the order of each ' +
  `conversation, at most ${RETRIES_DUE_MAX} per request. One that fails again waits for the next delay of its schedule.`;
const ENDPOINT = { 200: { description: 'The endpoint.', schema: schemaRef('Endpoint') } };

const CHANGE: OperationDescription = {
  ...COMMON,
  operationId: 'change-webhook',
  summary: 'Change a webhook endpoint',
  description:
    `Changes the members that the body has. ${IN_A_SECOND} \`headers\` replaces all custom headers. A new URL is a new ` +
    'receiver: the failures of the earlier one are forgotten. Webhooks that wait go to the new URL. A disabled endpoint stays ' +
    'disabled until it is enabled.',
  parameters: [ENDPOINT_PARAMETER],
  body: { schema: schemaRef('EndpointChange'), bytesMax: BODY_BYTES_MAX },
  answers: ENDPOINT,
  refusals: ['422-01'],
  ownErrors: { ...OF_ONE_ENDPOINT, '400-01': MALFORMED },
  examples: {
    change: {
      summary: 'A group of types, custom headers and a rate',
      parameters,
      body: {
        eventTypes: ['automation.*'],
        description: 'CRM',
        headers: { Authorization: 'Bearer a-token-of-the-receiver' },
        ratePerSecond: 20,
        retrySchedule: 'short',
      },
      status: 200,
      answer: {
        ...SHOWN_ENDPOINT,
        eventTypes: ['automation.*'],
        description: 'CRM',
        headerNames: ['Authorization'],
        ratePerSecond: 20,
        retrySchedule: 'short',
      },
    },
    clear: {
      summary: 'Every setting but the URL as it was at first',
      parameters,
      body: { eventTypes: null, description: null, headers: null, ratePerSecond: null, retrySchedule: null },
      status: 200,
      answer: SHOWN_ENDPOINT,
    },
    nothing: {
      summary: 'The body changes nothing',
      parameters,
      body: {},
      status: 422,
      answer: exampleError('422-01', {
        path: 'body',
        message:
          'must have at least one of url, eventTypes, description, headers, ratePerSecond, retrySchedule',
      }),
    },
  },
};

const PAUSE: OperationDescription = {
  ...COMMON,
  operationId: 'pause-webhook',
  summary: 'Pause a webhook endpoint',
  description: `Its webhooks wait until it is resumed. ${IN_A_SECOND} May be repeated. The body is ignored.`,
  parameters: [ENDPOINT_PARAMETER],
  answers: ENDPOINT,
  refusals: ['409-01'],
  ownErrors: {
    ...OF_ONE_ENDPOINT,
    '409-01': disabled('The endpoint is disabled, and gets nothing that could be paused: enable it first.'),
  },
  examples: {
    known: {
      summary: 'An endpoint',
      parameters,
      status: 200,
      answer: { ...SHOWN_ENDPOINT, health: 'paused' },
    },
    unknown,
  },
};

const RESUMED_EXAMPLES = {
  known: {
    summary: 'An endpoint',
    parameters,
    status: 200,
    answer: { ...SHOWN_ENDPOINT, retriesDue: 0 },
  },
  unknown,
};

const RESUME: OperationDescription = {
  ...COMMON,
  operationId: 'resume-webhook',
  summary: 'Resume a paused webhook endpoint',
  description:
    'Ends a pause, also one that the endpoint asked for with Retry-After. An endpoint that is not paused may be resumed too. ' +
    `${RETRIES_NOW} May be repeated. The body is ignored.`,
  parameters: [ENDPOINT_PARAMETER],
  answers: RESUMED,
  refusals: ['409-01'],
  ownErrors: {
    ...OF_ONE_ENDPOINT,
    '409-01': disabled('The endpoint is disabled: enable it first. What waited for it was dropped.'),
  },
  examples: RESUMED_EXAMPLES,
};

const ENABLE: OperationDescription = {
  ...COMMON,
  operationId: 'enable-webhook',
  summary: 'Enable a disabled webhook endpoint',
  description:
    'Enables an endpoint that answered 410, failed for 5 days, or whose creator was revoked. Its failures are forgotten. ' +
    'Events that occurred while it was disabled are not sent, and what waited then was dropped: recover it. A pause by its ' +
    `owner lasts. ${RETRIES_NOW} May be repeated. The body is ignored.`,
  parameters: [ENDPOINT_PARAMETER],
  answers: RESUMED,
  ownErrors: OF_ONE_ENDPOINT,
  examples: RESUMED_EXAMPLES,
};

const ROTATE: OperationDescription = {
  ...COMMON,
  operationId: 'rotate-webhook',
  summary: 'Rotate the secret of a webhook endpoint',
  description:
    'The new secret signs within a second. The previous one signs too for `overlapSeconds` (default 1 day; 0 ends it): the ' +
    'header `webhook-signature` then has both signatures. While two secrets sign, only 0 rotates again, and ends both.',
  parameters: [ENDPOINT_PARAMETER],
  body: { schema: schemaRef('SecretRotation'), bytesMax: BODY_BYTES_MAX },
  answers: {
    200: {
      description: 'The new secret, which no other answer shows.',
      schema: schemaRef('RotatedSecret'),
    },
  },
  refusals: ['409-01', '422-01'],
  ownErrors: {
    ...OF_ONE_ENDPOINT,
    '400-01': MALFORMED,
    '409-01': {
      meaning: 'Two secrets sign already, and `overlapSeconds` is not 0.',
      details: [
        {
          path: 'overlapSeconds',
          message:
            'the previous secret signs until 2026-01-03T03:04:05.678Z; 0 ends it and the current one immediately',
        },
      ],
    },
    '503-01': {
      meaning:
        'The database is unavailable. Retry after `Retry-After` seconds. If the retry is 409-01, the first request did create a ' +
        'secret, and `overlapSeconds` 0 replaces it.',
    },
  },
  examples: {
    withoutOverlap: {
      summary: 'The previous secret ends',
      parameters,
      body: { overlapSeconds: 0 },
      status: 200,
      answer: {
        endpointId: EXAMPLE_ULID,
        secret: 'whsec_aSecretThatIsShownOnceAndKeptEncryptedFor1t=',
        previousSecretValidUntil: null,
      },
    },
    refused: {
      summary: 'The secret is too short',
      parameters,
      body: { secret: 'whsec_c2hvcnQ=' },
      status: 422,
      answer: exampleError('422-01', {
        path: 'secret',
        message: 'must be whsec_ and the base64 of 24 to 64 bytes',
      }),
    },
    unknown: { ...unknown, body: { overlapSeconds: 0 } },
  },
};

/** The operations that change an endpoint. */
export const WEBHOOK_CHANGES: Operations = {
  'PATCH /admin/v1/webhooks/:endpointId': CHANGE,
  'POST /admin/v1/webhooks/:endpointId/pause': PAUSE,
  'POST /admin/v1/webhooks/:endpointId/resume': RESUME,
  'POST /admin/v1/webhooks/:endpointId/enable': ENABLE,
  'POST /admin/v1/webhooks/:endpointId/rotate': ROTATE,
};
