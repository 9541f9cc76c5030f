import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { knownSchemaOf } from '../../../shared/contracts/known-members.ts';
import {
  endpointChangeSchema,
  endpointSchema,
  RETRY_SCHEDULES,
  secretRotationSchema,
} from '../../../shared/contracts/webhook-endpoints.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { QUEUED_COUNTED_MAX } from '../../../shared/postgres/deliveries/count-queued.ts';
import { RETRIES_DUE_MAX } from '../../../shared/postgres/deliveries/make-retries-due.ts';

export const ENDPOINT_ID: JsonSchema = { type: 'string', description: 'Id of the endpoint.' };
const SECRET: JsonSchema = {
  type: 'string',
  pattern: '^whsec_',
  description: 'Signs webhooks. Shown only in this answer.',
};

const SHOWN = {
  endpointId: ENDPOINT_ID,
  url: { type: 'string' },
  eventTypes: {
    type: ['array', 'null'],
    items: { type: 'string' },
    description:
      'The types that the endpoint receives, or groups of types such as `automation.*`; null: all, including those of later releases.',
  },
  description: { type: ['string', 'null'] },
  headerNames: {
    type: 'array',
    items: { type: 'string' },
    description: 'The names of the custom headers. Their values are not shown.',
  },
  ratePerSecond: { type: ['integer', 'null'], description: 'Maximum attempts per second; null: no limit.' },
  retrySchedule: { type: 'string', enum: RETRY_SCHEDULES },
  state: {
    type: 'string',
    enum: ['enabled', 'disabled'],
    description:
      '`disabled`: nothing is sent, and new events are not sent later either. A paused endpoint is `enabled`.',
  },
  disabledReason: {
    type: 'string',
    description:
      '`gone`: the endpoint answered 410. `failing`: it failed for 5 days. `revoked`: the key that created it was revoked.',
  },
  health: {
    type: 'string',
    description:
      'For people: `healthy` (the last attempt succeeded, or there was none), `failing since` a time, `paused until` a time (at its own request), `paused`, or `disabled because` of a reason.',
  },
  failures: { type: 'integer', minimum: 0, description: 'Failed attempts since the last success.' },
  lastSuccessAt: { type: ['string', 'null'], format: 'date-time' },
  lastFailureAt: { type: ['string', 'null'], format: 'date-time' },
  previousSecretValidUntil: {
    type: ['string', 'null'],
    format: 'date-time',
    description: 'Until when the secret before the last rotation signs too; null: it does not.',
  },
  createdAt: { type: 'string', format: 'date-time' },
  createdBy: {
    type: ['string', 'null'],
    description:
      'The API key that created the endpoint; null: an operator created it, or the endpoint is older than this member.',
  },
} satisfies Readonly<Record<string, JsonSchema>>;

const REQUIRED = Object.keys(SHOWN).filter((name) => name !== 'disabledReason');

export const WEBHOOK_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  NewEndpoint: withUrlFormat(knownSchemaOf(endpointSchema)),
  EndpointChange: { ...withUrlFormat(knownSchemaOf(endpointChangeSchema)), minProperties: 1 },
  SecretRotation: knownSchemaOf(secretRotationSchema),
  CreatedEndpoint: {
    type: 'object',
    required: [...REQUIRED, 'secret'],
    properties: { ...SHOWN, secret: SECRET },
  },
  Endpoint: { type: 'object', required: REQUIRED, properties: SHOWN },
  EndpointDetails: {
    type: 'object',
    required: [...REQUIRED, 'waiting', 'inFlight', 'nextAttemptAt'],
    properties: {
      ...SHOWN,
      waiting: {
        type: 'integer',
        minimum: 0,
        maximum: QUEUED_COUNTED_MAX,
        description: 'Webhooks that wait for an attempt, counted up to the maximum.',
      },
      inFlight: { type: 'integer', minimum: 0, description: 'Webhooks that are being sent.' },
      nextAttemptAt: {
        type: ['string', 'null'],
        format: 'date-time',
        description: 'When the next attempt is due; null: none is planned, as while the endpoint is paused.',
      },
    },
  },
  ResumedEndpoint: {
    type: 'object',
    required: [...REQUIRED, 'retriesDue'],
    properties: {
      ...SHOWN,
      retriesDue: {
        type: 'integer',
        minimum: 0,
        maximum: RETRIES_DUE_MAX,
        description:
          'Webhooks that waited for a retry and are due now. If it is the maximum, more may wait: repeat the request.',
      },
    },
  },
  Endpoints: {
    type: 'object',
    required: ['items'],
    properties: { items: { type: 'array', items: schemaRef('Endpoint') } },
  },
  RotatedSecret: {
    type: 'object',
    required: ['endpointId', 'secret', 'previousSecretValidUntil'],
    properties: {
      endpointId: ENDPOINT_ID,
      secret: SECRET,
      previousSecretValidUntil: SHOWN.previousSecretValidUntil,
    },
  },
};

/** Returns a schema with the format of its URL, which the operation checks later. */
function withUrlFormat(schema: JsonSchema): JsonSchema {
  const { url, ...others } = schema.properties as Record<'url', JsonSchema>;
  return { ...schema, properties: { url: { ...url, format: 'uri' }, ...others } };
}
