import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { knownSchemaOf } from '../../../shared/contracts/known-members.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { ENDED_STATES } from '../../../shared/postgres/deliveries/delivery.ts';
import { WAITING_MAX } from '../../../shared/postgres/deliveries/recoveries.ts';
import { TIME, TIME_OR_NULL } from './openapi-schemas.ts';
import { recoverySchema } from './recover.ts';

const JOB = {
  type: 'object',
  required: [
    'jobId',
    'kind',
    'endpointId',
    'state',
    'reason',
    'from',
    'to',
    'states',
    'total',
    'queued',
    'skipped',
    'progress',
    'droppedWeeks',
    'createdAt',
    'createdBy',
    'finishedAt',
  ],
  properties: {
    jobId: { type: 'string' },
    kind: { type: 'string', enum: ['webhook-recovery'] },
    endpointId: { type: 'string' },
    state: {
      type: 'string',
      enum: ['running', 'completed', 'cancelled', 'failed'],
      description:
        '`completed`: everything is queued; the deliveries show what was sent. `failed`: the endpoint was deleted.',
    },
    reason: {
      type: ['string', 'null'],
      description:
        'Why the job waits (the endpoint is paused or disabled), is slow (its last attempt failed), or failed.',
    },
    from: TIME,
    to: TIME,
    states: { type: 'array', items: { type: 'string', enum: ENDED_STATES } },
    total: {
      type: ['integer', 'null'],
      minimum: 0,
      description: 'Deliveries that the job is for; null: not counted yet.',
    },
    queued: { type: 'integer', minimum: 0 },
    skipped: {
      type: 'integer',
      minimum: 0,
      description: 'Deliveries whose bodies were erased or dropped, or that changed meanwhile.',
    },
    progress: { type: 'number', minimum: 0, maximum: 1 },
    droppedWeeks: {
      type: 'array',
      items: { type: 'string', format: 'date' },
      description: 'The Mondays (UTC) of weeks in the range that retention has dropped.',
    },
    createdAt: TIME,
    createdBy: { type: ['string', 'null'], description: 'The API key; null: an operator.' },
    finishedAt: TIME_OR_NULL,
  },
} as const;

export const RECOVERY_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  NewRecovery: knownSchemaOf(recoverySchema),
  JobSummary: JOB,
  Job: {
    ...JOB,
    required: [...JOB.required, 'waiting'],
    properties: {
      ...JOB.properties,
      waiting: {
        type: 'integer',
        minimum: 0,
        maximum: WAITING_MAX,
        description:
          'Deliveries of the range that still wait for an attempt, counted up to the maximum. The job leaves them out, because ' +
          'they have not ended: resume the endpoint to send those that wait for a retry now.',
      },
    },
  },
  Jobs: {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: schemaRef('JobSummary') },
      next: { type: 'string', description: 'The `cursor` of the next page; omitted on the last page.' },
    },
  },
};
