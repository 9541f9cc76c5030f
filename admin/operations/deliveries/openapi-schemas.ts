import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { DELIVERY_STATES, DELIVERY_WAITS } from '../../../shared/postgres/deliveries/delivery.ts';

export const TIME: JsonSchema = { type: 'string', format: 'date-time' };
export const TIME_OR_NULL: JsonSchema = { type: ['string', 'null'], format: 'date-time' };

function milliseconds(description: string): JsonSchema {
  return { type: ['integer', 'null'], minimum: 0, description };
}

const DELIVERY = {
  type: 'object',
  required: [
    'deliveryId',
    'endpointId',
    'webhookId',
    'type',
    'state',
    'waitsFor',
    'attempts',
    'conversation',
    'redelivered',
    'createdAt',
    'nextAttemptAt',
    'finishedAt',
  ],
  properties: {
    deliveryId: { type: 'string' },
    endpointId: { type: 'string' },
    webhookId: {
      type: 'string',
      description: 'The `webhook-id`, the same for every endpoint and every attempt.',
    },
    type: {
      type: ['string', 'null'],
      description: 'Null: the webhook was erased, or its week was dropped.',
    },
    state: {
      type: 'string',
      enum: DELIVERY_STATES,
      description:
        '`waiting` for an attempt, `in-flight`, `delivered` (answered 2xx), `failed` (no attempt is left) or `dropped` (its ' +
        'endpoint was deleted or disabled).',
    },
    waitsFor: {
      anyOf: [{ type: 'string', enum: DELIVERY_WAITS }, { type: 'null' }],
      description:
        'Why a waiting one is not attempted now: `earlier-webhook` (of its conversation), `paused` (until the endpoint is ' +
        'resumed), `retry-after` (the endpoint asked for a pause) or `retry` (the next delay of its schedule). Null: it is due, ' +
        'in flight, or has ended.',
    },
    attempts: {
      type: 'integer',
      minimum: 0,
      description: 'Attempts begun since it was queued last.',
    },
    conversation: { type: ['string', 'null'], description: 'The id within which webhooks are ordered.' },
    redelivered: { type: 'boolean', description: 'Whether it was queued again on request.' },
    createdAt: { ...TIME, description: 'When the webhook was stored.' },
    nextAttemptAt: {
      ...TIME_OR_NULL,
      description:
        'Not before the end of a pause. Null: no attempt is planned, it is in flight, or it waits for an earlier webhook or a resume.',
    },
    finishedAt: TIME_OR_NULL,
  },
} as const;

const ATTEMPT: JsonSchema = {
  type: 'object',
  required: [
    'attempt',
    'repetition',
    'finishedAt',
    'status',
    'error',
    'errorClass',
    'durationMs',
    'dnsMs',
    'connectMs',
    'tlsMs',
    'firstByteMs',
    'answer',
  ],
  properties: {
    attempt: { type: 'integer', minimum: 1, description: 'From 1 each time that it is queued.' },
    repetition: {
      type: 'integer',
      minimum: 0,
      description: '0 until it is repeated, 1 after the first repetition that is shown, and so on.',
    },
    finishedAt: TIME,
    status: { type: ['integer', 'null'], description: 'HTTP status; null: no answer came.' },
    error: { type: ['string', 'null'], description: 'Null: delivered.' },
    errorClass: {
      type: ['string', 'null'],
      description:
        '`address` (the URL may not be dialled), `dns`, `connect`, `tls`, `timeout`, `answer` (no valid answer), `status` (an ' +
        'answer other than 2xx) or `sender`. Null: delivered, or sent by an earlier release.',
    },
    durationMs: { type: 'integer', minimum: 0 },
    dnsMs: milliseconds('The name look-up; null on an open connection.'),
    connectMs: milliseconds('The TCP connection; null on an open connection.'),
    tlsMs: milliseconds('The TLS handshake; null on an open connection.'),
    firstByteMs: milliseconds('From the request to the first byte of the answer.'),
    answer: {
      type: ['string', 'null'],
      description: "The first 1024 bytes of the answer's body, without signatures that it repeats.",
    },
  },
};

export const DELIVERY_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  Delivery: DELIVERY,
  Deliveries: {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: schemaRef('Delivery') },
      next: { type: 'string', description: 'The `cursor` of the next page; omitted on the last page.' },
    },
  },
  DeliveryDetails: {
    ...DELIVERY,
    required: [...DELIVERY.required, 'body', 'attemptLog'],
    properties: {
      ...DELIVERY.properties,
      body: {
        type: ['string', 'null'],
        description: 'Exactly the text that is sent. Null: erased, or its week was dropped.',
      },
      attemptLog: {
        type: 'array',
        items: schemaRef('DeliveryAttempt'),
        description: 'The newest 100 attempts, oldest first.',
      },
    },
  },
  DeliveryAttempt: ATTEMPT,
};
