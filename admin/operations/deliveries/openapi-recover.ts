import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription, Operations } from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';
import { UNKNOWN_CURSOR } from '../../request/cursor.ts';
import { CREATE_ERRORS, DATABASE_ERRORS } from '../common-errors.ts';
import { REVERSED_RANGE } from './list.ts';
import { DELIVERY_ID, NO_DELIVERY, NO_ENDPOINT, OF_DELIVERIES, ofOne, pathId } from './openapi.ts';

const REDELIVER: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'redeliver',
  summary: 'Send a delivery again',
  description:
    'With the same `webhook-id`, and all attempts again. A waiting delivery is due now. While the endpoint is paused, it waits: ' +
    '`waitsFor` and `nextAttemptAt` say so. It is not ordered towards newer webhooks of its conversation.',
  parameters: [DELIVERY_ID],
  answers: { 202: { description: 'The delivery is queued.', schema: schemaRef('Delivery') } },
  refusals: ['409-01'],
  ownErrors: {
    ...ofOne('delivery'),
    '409-01': {
      meaning:
        'It cannot be sent now: it is being sent, waits for an earlier webhook, its endpoint is disabled or deleted, or its ' +
        'body is not stored any more.',
      details: [{ path: 'deliveryId', message: 'is being sent now: wait for the result' }],
    },
  },
  examples: { unknown: NO_DELIVERY },
};

const JOB_SUMMARY = {
  jobId: EXAMPLE_ULID,
  kind: 'webhook-recovery',
  endpointId: EXAMPLE_ULID,
  state: 'running',
  reason: null,
  from: '2026-01-01T00:00:00.000Z',
  to: '2026-01-02T00:00:00.000Z',
  states: ['failed', 'dropped'],
  total: null,
  queued: 0,
  skipped: 0,
  progress: 0,
  droppedWeeks: [],
  createdAt: '2026-01-02T03:04:05.678Z',
  createdBy: EXAMPLE_ULID,
  finishedAt: null,
};
const JOB = { ...JOB_SUMMARY, waiting: 0 };

const RECOVER: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'recover-webhook',
  summary: 'Send the deliveries of a time range again',
  description:
    'Starts a job that queues the deliveries in the order in which they were stored, with the same `webhook-id`. It queues only ' +
    'while nothing else waits for the endpoint, so that newer webhooks go first. Without `states`, what was delivered is left out. What still waits for an attempt is left out ' +
    'too: `waiting` of the job has its number.',
  parameters: [pathId('endpointId', 'Id of the endpoint.')],
  body: { schema: schemaRef('NewRecovery'), bytesMax: BODY_BYTES_MAX },
  answers: {
    201: {
      description: 'The job.',
      schema: schemaRef('Job'),
      links: {
        show: { operationId: 'show-job', parameters: { jobId: '$response.body#/jobId' } },
        cancel: { operationId: 'cancel-job', parameters: { jobId: '$response.body#/jobId' } },
      },
    },
  },
  refusals: ['409-01', '422-01'],
  ownErrors: {
    ...CREATE_ERRORS,
    '404-01': ofOne('endpoint')['404-01'],
    '409-01': {
      meaning: 'Another recovery of the endpoint runs, or the endpoint is disabled.',
      details: [
        {
          path: 'endpointId',
          message: `the recovery ${EXAMPLE_ULID} of this endpoint runs: cancel it, or wait for its end`,
        },
      ],
    },
  },
  examples: {
    day: {
      summary: 'What was not delivered of a day',
      parameters: { endpointId: EXAMPLE_ULID },
      body: { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' },
      status: 201,
      answer: JOB,
    },
    reversed: {
      summary: 'The range is reversed',
      parameters: { endpointId: EXAMPLE_ULID },
      body: { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' },
      status: 422,
      answer: exampleError('422-01', REVERSED_RANGE),
    },
    unknown: { ...NO_ENDPOINT, body: { from: '2026-01-01T00:00:00Z' } },
  },
};

const JOB_ID = pathId('jobId', 'Id of the job.');
const NO_JOB = {
  summary: 'The tenant has no such job',
  parameters: { jobId: 'no-such-job' },
  status: 404,
  answer: exampleError('404-01'),
};

const LIST_JOBS: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'list-jobs',
  summary: 'List jobs',
  description: 'Newest first. A job can be read for 30 days after its end.',
  parameters: [
    {
      name: 'limit',
      in: 'query',
      description: 'Maximum number of jobs.',
      schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
    },
    {
      name: 'cursor',
      in: 'query',
      description: 'The `next` of the previous page.',
      schema: { type: 'string', pattern: '^[a-zA-Z0-9_-]+$' },
    },
  ],
  answers: { 200: { description: 'A page of jobs.', schema: schemaRef('Jobs') } },
  ownErrors: {
    ...DATABASE_ERRORS,
    '400-01': { meaning: 'A parameter is unknown or invalid, or the cursor is of another list.' },
  },
  examples: {
    all: { summary: 'One job', status: 200, answer: { items: [JOB_SUMMARY] } },
    cursor: {
      summary: 'The cursor is not of this list',
      parameters: { cursor: 'another' },
      status: 400,
      answer: exampleError('400-01', UNKNOWN_CURSOR),
    },
  },
};

const SHOW_JOB: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'show-job',
  summary: 'Show the progress of a job',
  description:
    'A job goes on if the process that carries it out ends. It can be read for 30 days after its end.',
  parameters: [JOB_ID],
  answers: { 200: { description: 'The job.', schema: schemaRef('Job') } },
  ownErrors: ofOne('job'),
  examples: { unknown: NO_JOB },
};

const CANCEL_JOB: OperationDescription = {
  ...OF_DELIVERIES,
  operationId: 'cancel-job',
  summary: 'Cancel a job',
  description: 'What it has queued is still sent. Succeeds again if the job was cancelled before.',
  parameters: [JOB_ID],
  answers: { 200: { description: 'The cancelled job.', schema: schemaRef('Job') } },
  refusals: ['409-01'],
  ownErrors: {
    ...ofOne('job'),
    '409-01': {
      meaning: 'The job has ended.',
      details: [{ path: 'jobId', message: 'has ended already' }],
    },
  },
  examples: { unknown: NO_JOB },
};

export const RECOVERY_OPERATIONS: Operations = {
  'POST /admin/v1/deliveries/:deliveryId/redeliver': REDELIVER,
  'POST /admin/v1/webhooks/:endpointId/recover': RECOVER,
  'GET /admin/v1/jobs': LIST_JOBS,
  'GET /admin/v1/jobs/:jobId': SHOW_JOB,
  'POST /admin/v1/jobs/:jobId/cancel': CANCEL_JOB,
};
