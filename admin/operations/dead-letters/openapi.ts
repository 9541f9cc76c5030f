import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';
import { KINDS } from '../../../shared/contracts/kinds.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type {
  OperationDescription,
  OperationParameter,
  Operations,
} from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';
import { UNKNOWN_CURSOR } from '../../request/cursor.ts';
import { MALFORMED_PATH } from '../../request/path-id.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { withoutNull } from '../entities/openapi-schemas.ts';
import { listSchema, REPLAY_MS } from './filter.ts';

const ID = '1.agent-metadata.3.1207';
const TAG = 'dead-letters';
const REPLAY_MINUTES = REPLAY_MS / 60_000;

const DEAD_LETTER_ID: OperationParameter = {
  name: 'deadLetterId',
  in: 'path',
  description: 'Id of the dead letter.',
  schema: { type: 'string', minLength: 1 },
};

const SHOWN = {
  deadLetterId: ID,
  kind: 'agent-metadata',
  recordId: EXAMPLE_ULID,
  reason: 'refused',
  stage: 'store',
  problem: 'the database refused the record (23514)',
  failedAt: '2026-01-02T03:04:05.678Z',
  expiresAt: '2026-02-01T03:04:05.678Z',
  state: 'open',
  settledAt: null,
  replays: 0,
  replayable: true,
};

const OF_ONE = {
  ...DATABASE_ERRORS,
  '400-01': { details: [MALFORMED_PATH] },
  '404-01': { meaning: 'Your tenant has no such dead letter, or the path or method does not exist.' },
} as const;
const unknown = {
  summary: 'The tenant has no such dead letter',
  parameters: { deadLetterId: 'no-such-dead-letter' },
  status: 404,
  answer: exampleError('404-01'),
};
const parameters = { deadLetterId: ID };

/** The filters of the list as parameters. */
function filterParameters(): OperationParameter[] {
  const members = jsonSchemaOf(listSchema).properties as Readonly<Record<string, JsonSchema>>;
  return Object.entries(members).map(([name, member]) => {
    const { description, ...schema } = withoutNull(member);
    return { name, in: 'query', description: String(description), schema };
  });
}

const LIST: OperationDescription = {
  tag: TAG,
  scope: 'dead-letters:read',
  operationId: 'list-dead-letters',
  summary: "List the tenant's dead letters",
  description:
    'Newest first, without their values. With several filters, each must match. Each parameter at most once; any other is 400-01.',
  parameters: [
    ...filterParameters(),
    {
      name: 'limit',
      in: 'query',
      description: 'Maximum number of dead letters.',
      schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
    },
    {
      name: 'cursor',
      in: 'query',
      description: 'The `next` of the previous page, with the same filters.',
      schema: { type: 'string', pattern: '^[a-zA-Z0-9_-]+$' },
    },
  ],
  answers: { 200: { description: 'A page of dead letters.', schema: schemaRef('DeadLetters') } },
  refusals: ['422-01'],
  ownErrors: {
    ...DATABASE_ERRORS,
    '400-01': { meaning: 'A parameter is unknown or invalid, or the cursor is of another list.' },
    '422-01': { meaning: '`to` is not after `from`.' },
  },
  examples: {
    all: { summary: 'One open dead letter', status: 200, answer: { items: [SHOWN] } },
    none: {
      summary: 'No dead letters with a reason, of one kind',
      parameters: { kind: 'message-sent', reason: 'crash', state: 'open' },
      status: 200,
      answer: { items: [] },
    },
    reversed: {
      summary: 'The range is reversed',
      parameters: { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' },
      status: 422,
      answer: exampleError('422-01', { path: 'to', message: 'must be after from' }),
    },
    cursor: {
      summary: 'The cursor is not of this list',
      parameters: { cursor: 'another' },
      status: 400,
      answer: exampleError('400-01', UNKNOWN_CURSOR),
    },
  },
};

const SHOW: OperationDescription = {
  tag: TAG,
  scope: 'dead-letters:read',
  operationId: 'show-dead-letter',
  summary: 'Show a dead letter',
  description:
    'In any state, with the record that could not be stored. Values of credentials are never shown.',
  parameters: [DEAD_LETTER_ID],
  answers: { 200: { description: 'The dead letter.', schema: schemaRef('DeadLetterWithValue') } },
  ownErrors: OF_ONE,
  examples: {
    known: {
      summary: 'A dead letter',
      parameters,
      status: 200,
      answer: {
        ...SHOWN,
        value: {
          specversion: '1.0',
          id: EXAMPLE_ULID,
          type: 'sluice.agent-metadata.v1',
          data: { externalAgentId: 'agent-1' },
        },
      },
    },
    unknown,
  },
};

const WRITE = { tag: TAG, scope: 'dead-letters:write' } as const;

function ofOne(verb: 'replay' | 'drop', settled: string): NonNullable<OperationDescription['ownErrors']> {
  return {
    ...OF_ONE,
    '409-01': {
      meaning:
        `The dead letter was replayed or dropped before, or is being replayed${verb === 'replay' ? ', or its value was erased' : ''}: ` +
        '`details` say which.',
      details: [
        {
          path: 'deadLetterId',
          message: `the dead letter was ${settled} at 2026-01-02T03:04:05.678Z and has not failed since`,
        },
      ],
    },
  };
}

const REPLAY_ONE: OperationDescription = {
  ...WRITE,
  operationId: 'replay-dead-letter',
  summary: 'Replay a dead letter',
  description:
    'A gateway publishes the record to the event log again. Workers store it once, in its place among newer records, and set the state to ' +
    '`replayed`; if it fails again, to `open` with the new reason. While it is `replaying`, it can be replayed or dropped only after ' +
    `${REPLAY_MINUTES} minutes. The request has no body.`,
  parameters: [DEAD_LETTER_ID],
  answers: {
    202: { description: 'The dead letter, which is being replayed.', schema: schemaRef('DeadLetter') },
  },
  refusals: ['409-01'],
  ownErrors: ofOne('replay', 'dropped'),
  examples: {
    known: {
      summary: 'An open dead letter',
      parameters,
      status: 202,
      answer: { ...SHOWN, state: 'replaying', replays: 1 },
    },
    unknown,
  },
};

const DROP_ONE: OperationDescription = {
  ...WRITE,
  operationId: 'drop-dead-letter',
  summary: 'Drop a dead letter',
  description: 'Permanent. It can still be shown until it expires. The request has no body.',
  parameters: [DEAD_LETTER_ID],
  answers: { 200: { description: 'The dead letter, which is dropped.', schema: schemaRef('DeadLetter') } },
  refusals: ['409-01'],
  ownErrors: ofOne('drop', 'replayed'),
  examples: {
    known: {
      summary: 'An open dead letter',
      parameters,
      status: 200,
      answer: { ...SHOWN, state: 'dropped', replayable: false, settledAt: '2026-01-03T03:04:05.678Z' },
    },
    unknown,
  },
};

const BODY = { schema: schemaRef('DeadLetterSelection'), bytesMax: BODY_BYTES_MAX };
const UNKNOWN_KIND = {
  summary: 'There is no such kind',
  body: { kind: 'agents' },
  status: 422,
  answer: exampleError('422-01', { path: 'kind', message: `must be one of ${KINDS.join(', ')}` }),
};
/** The schema of the body cannot express it. */
const FILTERS = 'Needs one of `kind`, `reason`, `from` and `to`.';

const REPLAY_MANY: OperationDescription = {
  ...WRITE,
  operationId: 'replay-dead-letters',
  summary: 'Replay the dead letters that match filters',
  description:
    'Up to `limit` open ones, as one by one. Those with the reason `conflict` would conflict again and are left out unless `reason` is ' +
    '`conflict`; those without a value are left out too. Of two concurrent requests, each replays others. ' +
    FILTERS,
  body: BODY,
  answers: {
    202: { description: 'The dead letters are being replayed.', schema: schemaRef('ReplayingDeadLetters') },
  },
  refusals: ['422-01'],
  ownErrors: DATABASE_ERRORS,
  examples: {
    refused: {
      summary: 'All of one kind that the database refused',
      body: { kind: 'agent-metadata', reason: 'refused' },
      status: 202,
      answer: { replaying: 1, conflictsLeftOut: 0, more: false },
    },
    unknown: UNKNOWN_KIND,
  },
};

const DROP_MANY: OperationDescription = {
  ...WRITE,
  operationId: 'drop-dead-letters',
  summary: 'Drop the dead letters that match filters',
  description: `Up to \`limit\` open ones. Permanent. They can still be shown until they expire. ${FILTERS}`,
  body: BODY,
  answers: {
    200: { description: 'The dead letters are dropped.', schema: schemaRef('DroppedDeadLetters') },
  },
  refusals: ['422-01'],
  ownErrors: DATABASE_ERRORS,
  examples: {
    conflicts: {
      summary: 'All conflicts before a time',
      body: { reason: 'conflict', to: '2026-01-02T00:00:00Z' },
      status: 200,
      answer: { dropped: 3, more: false },
    },
    unknown: UNKNOWN_KIND,
  },
};

export const DEAD_LETTER_OPERATIONS: Operations = {
  'GET /admin/v1/dead-letters': LIST,
  'GET /admin/v1/dead-letters/:deadLetterId': SHOW,
  'POST /admin/v1/dead-letters/:deadLetterId/replay': REPLAY_ONE,
  'POST /admin/v1/dead-letters/:deadLetterId/drop': DROP_ONE,
  'POST /admin/v1/dead-letters/replay': REPLAY_MANY,
  'POST /admin/v1/dead-letters/drop': DROP_MANY,
};
