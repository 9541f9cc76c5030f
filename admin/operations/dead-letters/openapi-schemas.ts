import { DEAD_LETTER_REASONS } from '../../../shared/contracts/dead-letter.ts';
import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { KINDS } from '../../../shared/contracts/kinds.ts';
import { knownSchemaOf } from '../../../shared/contracts/known-members.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { STATES } from '../../../shared/postgres/dead-letter-lists.ts';
import { LETTERS_MAX, selectionSchema } from './filter.ts';

const TIME: JsonSchema = { type: 'string', format: 'date-time' };

const MEMBERS: Readonly<Record<string, JsonSchema>> = {
  deadLetterId: {
    type: 'string',
    description:
      'Generation, kind, partition and offset at which the record was first read, as the `position` of its event has them.',
  },
  kind: { type: 'string', enum: KINDS },
  recordId: {
    type: ['string', 'null'],
    description: 'The eventId or messageId; null if it cannot be read.',
  },
  reason: { type: 'string', enum: DEAD_LETTER_REASONS },
  stage: { type: 'string', description: 'The step that failed: `decode`, `check` or `store`.' },
  problem: { type: 'string', description: 'What is wrong, without values of the record.' },
  failedAt: TIME,
  expiresAt: { ...TIME, description: 'When the dead letter is deleted.' },
  state: { type: 'string', enum: STATES },
  settledAt: {
    type: ['string', 'null'],
    format: 'date-time',
    description: 'When it was replayed or dropped; null before that.',
  },
  replays: { type: 'integer', description: 'How often it was replayed.' },
  replayable: {
    type: 'boolean',
    description:
      'False if it was replayed or dropped, or if its value was erased with the retention of credentials.',
  },
};

export const DEAD_LETTER_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  DeadLetter: { type: 'object', required: Object.keys(MEMBERS), properties: MEMBERS },
  DeadLetterWithValue: {
    type: 'object',
    required: [...Object.keys(MEMBERS), 'value'],
    properties: {
      ...MEMBERS,
      value: {
        description:
          'The record as a CloudEvents event, byte for byte; null if it is erased, no JSON, or credentials, which are never shown.',
      },
      valueBase64: { type: 'string', description: 'A value that is no JSON in UTF-8.' },
    },
  },
  DeadLetters: {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: schemaRef('DeadLetter') },
      next: { type: 'string', description: 'The `cursor` of the next page; omitted on the last page.' },
    },
  },
  DeadLetterSelection: knownSchemaOf(selectionSchema),
  ReplayingDeadLetters: settled('replaying', 'How many are being replayed now.', {
    conflictsLeftOut: {
      type: 'integer',
      description:
        `Open dead letters that match, but were left out because their reason is \`conflict\`, counted up to ${LETTERS_MAX}. 0 if ` +
        '`reason` was given.',
    },
  }),
  DroppedDeadLetters: settled('dropped', 'How many were dropped.'),
};

function settled(
  member: string,
  description: string,
  others: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return {
    type: 'object',
    required: [member, ...Object.keys(others), 'more'],
    properties: {
      [member]: { type: 'integer', description },
      ...others,
      more: {
        type: 'boolean',
        description: 'Whether more may match: repeat the request until it is false.',
      },
    },
  };
}
