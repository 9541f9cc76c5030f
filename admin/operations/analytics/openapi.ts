import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type {
  OperationDescription,
  OperationExample,
  OperationParameter,
  Operations,
} from '../../../shared/openapi/operation.ts';
import { AUTOMATION_GROUPS } from '../../../shared/reports/automation-report.ts';
import { MESSAGE_GROUPS } from '../../../shared/reports/message-sent-report.ts';
import { GROUPS_MAX, INTERVALS, ROWS_MAX } from '../../../shared/reports/report-query.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { RATES } from './openapi-schemas.ts';

function parameters(groups: readonly string[]): OperationParameter[] {
  return [
    {
      name: 'from',
      in: 'query',
      required: true,
      description:
        'Start of the range: an RFC 3339 time at a quarter-hour, or a date in the time zone, such as `2026-01-31`. ' +
        'In a URL, write the `+` of an offset as `%2B`.',
      schema: { type: 'string' },
    },
    {
      name: 'to',
      in: 'query',
      required: true,
      description:
        'End of the range, which is not part of it. At most 366 days after `from`, 31 days with the interval `hour`.',
      schema: { type: 'string' },
    },
    {
      name: 'groupBy',
      in: 'query',
      description: 'Also the values of each group. Omitted: only those of all records.',
      schema: { type: 'string', enum: groups },
    },
    {
      name: 'interval',
      in: 'query',
      description: 'The whole range, or each day or hour of the time zone.',
      schema: { type: 'string', enum: INTERVALS, default: 'total' },
    },
    {
      name: 'timezone',
      in: 'query',
      description: 'IANA time zone of days, hours and dates.',
      schema: { type: 'string', default: 'UTC' },
    },
  ];
}

const RANGE = { from: '2020-01-31T23:00:00Z', to: '2020-02-01' };

function reportOperation(
  description: Pick<OperationDescription, 'operationId' | 'summary' | 'description'>,
  groups: readonly string[],
  schema: string,
  examples: Readonly<Record<string, OperationExample>>,
): OperationDescription {
  return {
    tag: 'analytics',
    scope: 'analytics:read',
    ...description,
    description:
      `${description.description} Intervals are half-open, and those without records are present. A report has at most ${GROUPS_MAX} ` +
      `groups, and ${ROWS_MAX} values of groups in intervals. Each parameter at most once.`,
    parameters: parameters(groups),
    answers: { 200: { description: 'The report.', schema: schemaRef(schema) } },
    refusals: ['422-01'],
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': { meaning: 'A parameter is unknown, given twice, or has a `+` that is not percent-encoded.' },
      '422-01': {
        meaning:
          'A parameter is missing or invalid, or the report is too large; `details` says what to change.',
      },
    },
    examples: {
      ...examples,
      reversed: {
        summary: 'The range is reversed',
        parameters: { from: '2020-02-01', to: '2020-01-31' },
        status: 422,
        answer: exampleError('422-01', { path: 'to', message: 'must be after from' }),
      },
      group: {
        summary: 'There are no such groups',
        parameters: { ...RANGE, groupBy: 'agent' },
        status: 422,
        answer: exampleError('422-01', {
          path: 'groupBy',
          message: `must be one of ${groups.join(', ')}, or omitted`,
        }),
      },
      unknown: {
        summary: 'A parameter is unknown',
        parameters: { ...RANGE, agentId: 'agent-1' },
        status: 400,
        answer: exampleError('400-01', {
          path: 'query',
          message: 'must have no parameters except from, to, groupBy, interval, timezone',
        }),
      },
    },
  };
}

const NO_TIME = { messages: 0, mean: null, p50: null, p95: null, p99: null };

const NO_MESSAGES = {
  messages: 0,
  uses: 0,
  edits: 0,
  sentUnedited: 0,
  suggestionsShown: 0,
  suggestionsUsed: 0,
  selectedFirst: 0,
  selectedSecond: 0,
  selectedThird: 0,
  selectedLater: 0,
  phrasesPresented: 0,
  phrasesSelected: 0,
  withNumEdits: 0,
  withPhrasesPresented: 0,
  withPhrasesSelected: 0,
  rates: { suggestionsUsed: null, sentUnedited: null, selectedFirst: null, phrasesSelected: null },
  means: { edits: null, phrasesPresented: null, phrasesSelected: null },
  timeToAction: NO_TIME,
  craftingTime: NO_TIME,
  dwellTime: NO_TIME,
};

export const ANALYTICS_OPERATIONS: Operations = {
  'GET /admin/v1/analytics/message-sent': reportOperation(
    {
      operationId: 'report-message-sent',
      summary: 'Count MessageSent events',
      description:
        'Counts, rates, means and quantiles of the times in seconds. They include all stored events, and equal a recount of them. ' +
        'An event with several augmentation types is in the group of each, and once in `all`. A number that was not sent is in ' +
        `no sum, mean or quantile. Rates: ${Object.values(RATES).join('; ')}. A message whose value of \`groupBy\` is not known is in ` +
        'the group null.',
    },
    MESSAGE_GROUPS,
    'MessageSentReport',
    {
      none: {
        summary: 'A range without messages',
        parameters: { ...RANGE, groupBy: 'augmentationType', interval: 'hour', timezone: 'UTC' },
        status: 200,
        answer: {
          from: RANGE.from,
          to: '2020-02-01T00:00:00Z',
          interval: 'hour',
          timezone: 'UTC',
          groupBy: 'augmentationType',
          timeOf: 'occurredAt of the message, or the time at which it was accepted if it has none',
          intervals: [
            {
              from: RANGE.from,
              to: '2020-02-01T00:00:00Z',
              deadLetters: 0,
              conflicts: 0,
              all: NO_MESSAGES,
              groups: [],
            },
          ],
        },
      },
    },
  ),
  'GET /admin/v1/analytics/automation': reportOperation(
    {
      operationId: 'report-automation',
      summary: 'Count automation events',
      description:
        'Conversations, events by type, and the seconds from processingStart to each reply and to processingEnd. An event is in ' +
        'the interval of its occurredAt; one that was accepted more than a day before it occurred is not counted. A time is measured ' +
        'from the latest of the starts that precede the event in the order of the log. An event that occurred before this start, ' +
        'or more than a day after it, has no time.',
    },
    AUTOMATION_GROUPS,
    'AutomationReport',
    {
      none: {
        summary: 'A range without events',
        parameters: RANGE,
        status: 200,
        answer: {
          from: RANGE.from,
          to: '2020-02-01T00:00:00Z',
          interval: 'total',
          timezone: 'UTC',
          timeOf: 'occurredAt of the event',
          intervals: [
            {
              from: RANGE.from,
              to: '2020-02-01T00:00:00Z',
              deadLetters: 0,
              conflicts: 0,
              all: {
                conversations: 0,
                processingStarts: 0,
                replies: 0,
                processingEnds: 0,
                confirmations: 0,
                authentications: 0,
                transfersToAgent: 0,
                transfersToSystem: 0,
                timeToReply: { events: 0, mean: null, p50: null, p95: null, p99: null },
                timeToEnd: { events: 0, mean: null, p50: null, p95: null, p99: null },
              },
            },
          ],
        },
      },
    },
  ),
};
