import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { AUTOMATION_COUNTS } from '../../../shared/postgres/automation-counts.ts';
import { REPORTED_COUNTS } from '../../../shared/reports/message-sent-report.ts';
import { INTERVALS } from '../../../shared/reports/report-query.ts';

const COUNT: JsonSchema = { type: 'integer', minimum: 0 };
/** Null if there is nothing to divide by. */
const QUOTIENT: JsonSchema = { type: ['number', 'null'], minimum: 0 };
const TIME: JsonSchema = { type: 'string', format: 'date-time' };

function objectOf(
  properties: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', required, properties };
}

/** Returns the schema of a time in seconds: its number of records, mean and quantiles. */
function timeValues(records: string): JsonSchema {
  return objectOf({ [records]: COUNT, mean: QUOTIENT, p50: QUOTIENT, p95: QUOTIENT, p99: QUOTIENT }, [
    'p50',
    'p95',
    'p99',
  ]);
}

/** Returns the schemas of a report with these values: the report, its intervals and its groups. */
function reportSchemas(
  name: string,
  values: Readonly<Record<string, JsonSchema>>,
): Record<string, JsonSchema> {
  return {
    [`${name}Report`]: objectOf(
      {
        from: TIME,
        to: { ...TIME, description: 'Not part of the range.' },
        interval: { type: 'string', enum: INTERVALS },
        timezone: { type: 'string' },
        groupBy: { type: 'string' },
        timeOf: { type: 'string', description: 'What the time of a record is.' },
        intervals: { type: 'array', items: schemaRef(`${name}Interval`) },
      },
      ['groupBy'],
    ),
    [`${name}Interval`]: objectOf(
      {
        from: TIME,
        to: TIME,
        deadLetters: {
          ...COUNT,
          description:
            'Open dead letters that were accepted in the interval, except conflicts. They are not counted.',
        },
        conflicts: { ...COUNT, description: 'Open dead letters with an id that another content has.' },
        all: schemaRef(`${name}Values`),
        groups: {
          type: 'array',
          description: 'With `groupBy`: the same groups in each interval, those with the most records first.',
          items: {
            ...objectOf({
              group: { type: ['string', 'null'], description: 'Null: the value is not known.' },
              ...values,
            }),
          },
        },
      },
      ['groups'],
    ),
    [`${name}Values`]: objectOf(values),
  };
}

/** The definitions of the rates. */
export const RATES = {
  suggestionsUsed: 'suggestionsUsed / suggestionsShown: of the messages whose agent saw suggestions',
  sentUnedited:
    'sentUnedited / withNumEdits: of the messages in which numEdits was sent, also those without a used suggestion',
  selectedFirst:
    'selectedFirst / (selectedFirst + selectedSecond + selectedThird + selectedLater): of the messages with an index',
  phrasesSelected:
    'phrasesSelected / phrasesPresented: sums, each over the messages in which that number was sent',
};

const MESSAGE_VALUES: Readonly<Record<string, JsonSchema>> = {
  ...Object.fromEntries(REPORTED_COUNTS.map((name) => [name, COUNT])),
  rates: {
    ...objectOf(
      Object.fromEntries(
        Object.entries(RATES).map(([name, description]) => [name, { ...QUOTIENT, description }]),
      ),
    ),
    description: 'Quotients of the counts. Null if there is nothing to divide by.',
  },
  means: {
    ...objectOf({ edits: QUOTIENT, phrasesPresented: QUOTIENT, phrasesSelected: QUOTIENT }),
    description:
      'Per message in which the number was sent: edits / withNumEdits, phrasesPresented / withPhrasesPresented, ' +
      'phrasesSelected / withPhrasesSelected.',
  },
  timeToAction: timeValues('messages'),
  craftingTime: timeValues('messages'),
  dwellTime: timeValues('messages'),
};

const AUTOMATION_VALUES: Readonly<Record<string, JsonSchema>> = {
  conversations: { ...COUNT, description: 'Conversations with events in the interval.' },
  ...Object.fromEntries(Object.keys(AUTOMATION_COUNTS).map((name) => [name, COUNT])),
  timeToReply: timeValues('events'),
  timeToEnd: timeValues('events'),
};

export const ANALYTICS_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  ...reportSchemas('MessageSent', MESSAGE_VALUES),
  ...reportSchemas('Automation', AUTOMATION_VALUES),
};
