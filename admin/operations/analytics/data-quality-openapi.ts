import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { KINDS } from '../../../shared/contracts/kinds.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type { Operations } from '../../../shared/openapi/operation.ts';
import { DATA_QUALITY_INTERVALS, DAYS_MAX } from '../../../shared/reports/data-quality-report.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';

const DAY: JsonSchema = { type: 'string', format: 'date' };
const RECORDS: JsonSchema = { type: 'integer', minimum: 0 };
const KIND: JsonSchema = { type: 'string', enum: KINDS };

function objectOf(properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: 'object', required: Object.keys(properties), properties };
}

function listOf(schema: string, description: string): JsonSchema {
  return { type: 'array', description, items: schemaRef(schema) };
}

export const DATA_QUALITY_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  DataQualityReport: objectOf({
    from: DAY,
    to: { ...DAY, description: 'Not part of the range.' },
    interval: { type: 'string', enum: DATA_QUALITY_INTERVALS },
    intervals: { type: 'array', items: schemaRef('DataQualityInterval') },
  }),
  DataQualityInterval: objectOf({
    from: DAY,
    to: DAY,
    gaps: listOf('KindWithMembers', 'Stored records that lack members that their other members call for.'),
    unknownMembers: listOf('KindWithMembers', 'Records with members that their kind does not have.'),
    rejected: listOf(
      'RejectedRecords',
      'Records that were refused for their content, and bodies that could not be read.',
    ),
    duplicates: listOf('FoundRecords', 'Records that were dropped, because they are stored.'),
    conflicts: listOf('FoundRecords', 'Records with an id that another content has.'),
    deadLetters: listOf('RejectedByWorkers', 'Accepted records that could not be stored, except conflicts.'),
  }),
  KindWithMembers: objectOf({
    kind: KIND,
    records: RECORDS,
    members: { type: 'array', items: schemaRef('NamedRecords') },
  }),
  RejectedRecords: objectOf({
    kind: KIND,
    code: { type: 'string', description: 'The code of the answer, or of the result of an item.' },
    records: RECORDS,
    fields: { type: 'array', items: schemaRef('NamedRecords') },
  }),
  FoundRecords: objectOf({ kind: KIND, gateway: RECORDS, workers: RECORDS }),
  RejectedByWorkers: objectOf({ kind: KIND, reason: { type: 'string' }, records: RECORDS }),
  NamedRecords: objectOf({ name: { type: 'string' }, records: RECORDS }),
};

const NOTHING = {
  gaps: [],
  unknownMembers: [],
  rejected: [],
  duplicates: [],
  conflicts: [],
  deadLetters: [],
};

export const DATA_QUALITY_OPERATIONS: Operations = {
  'GET /admin/v1/analytics/data-quality': {
    operationId: 'report-data-quality',
    tag: 'analytics',
    scope: 'analytics:read',
    summary: 'Count what is wrong with records',
    description:
      'Missing and unknown members by name, rejected records by code and field, duplicates, conflicts and dead letters, by the UTC ' +
      'day on which they were accepted or refused. What workers count is exact. Gateways write their counts every 5 seconds. ' +
      'Counts are kept for 400 days. Each parameter at most once.',
    parameters: [
      {
        name: 'from',
        in: 'query',
        required: true,
        description: 'First day of the range (UTC), such as `2026-01-31`.',
        schema: DAY,
      },
      {
        name: 'to',
        in: 'query',
        required: true,
        description: `The day after the range (UTC), at most ${DAYS_MAX} days after \`from\`.`,
        schema: DAY,
      },
      {
        name: 'interval',
        in: 'query',
        description: 'The whole range, or each day. Days without counts are present.',
        schema: { type: 'string', enum: DATA_QUALITY_INTERVALS, default: 'total' },
      },
    ],
    answers: { 200: { description: 'The report.', schema: schemaRef('DataQualityReport') } },
    refusals: ['422-01'],
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': { meaning: 'A parameter is unknown, or given twice.' },
      '422-01': { meaning: 'A parameter is missing or invalid; `details` says what to change.' },
    },
    examples: {
      none: {
        summary: 'Days without counts',
        parameters: { from: '2020-01-31', to: '2020-02-02', interval: 'day' },
        status: 200,
        answer: {
          from: '2020-01-31',
          to: '2020-02-02',
          interval: 'day',
          intervals: [
            { from: '2020-01-31', to: '2020-02-01', ...NOTHING },
            { from: '2020-02-01', to: '2020-02-02', ...NOTHING },
          ],
        },
      },
      reversed: {
        summary: 'The range is reversed',
        parameters: { from: '2020-02-02', to: '2020-01-31' },
        status: 422,
        answer: exampleError('422-01', { path: 'to', message: 'must be after from' }),
      },
      long: {
        summary: 'The range is too long',
        parameters: { from: '2020-01-01', to: '2022-01-01' },
        status: 422,
        answer: exampleError('422-01', {
          path: 'to',
          message: `must be at most ${DAYS_MAX} days after from: choose shorter ranges`,
        }),
      },
      unknown: {
        summary: 'A parameter is unknown',
        parameters: { from: '2020-01-31', to: '2020-02-02', kind: 'message-sent' },
        status: 400,
        answer: exampleError('400-01', {
          path: 'query',
          message: 'must have no parameters except from, to, interval',
        }),
      },
    },
  },
};
