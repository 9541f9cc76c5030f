import { exampleError } from '../../../shared/openapi/errors.ts';
import type { Operations } from '../../../shared/openapi/operation.ts';
import { EXPORT_NAMES } from '../../../shared/postgres/export-kinds.ts';
import { PAGE_BYTES_MAX } from '../../../shared/postgres/page-bytes.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { CURSOR_HEADER, MORE_HEADER, NDJSON, UNKNOWN_EXPORT_CURSOR } from './export.ts';

export const EXPORT_OPERATIONS: Operations = {
  'GET /admin/v1/export/:kind': {
    operationId: 'export',
    tag: 'export',
    summary: 'Read all stored records of a kind, each once',
    description:
      'For jobs that copy records. The rows have the columns of the view of this name (with `_`) in the schema `analytics`, and the ' +
      'order in which workers read the records: a job that continues with the cursor of each answer misses no record and reads ' +
      'none twice, also records that are stored late or replayed. 64-bit integers are strings, times RFC 3339 in UTC. ' +
      `A page ends after ${PAGE_BYTES_MAX / (1024 * 1024)} MiB and after a bounded search, so it can have fewer rows than \`limit\`, or none, ` +
      `although \`${MORE_HEADER}\` is \`true\`. Each parameter at most once.`,
    scope: 'records:read',
    parameters: [
      {
        name: 'kind',
        in: 'path',
        description: 'What to export.',
        schema: { type: 'string', enum: EXPORT_NAMES },
      },
      {
        name: 'limit',
        in: 'query',
        description: 'Maximum number of rows.',
        schema: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
      },
      {
        name: 'cursor',
        in: 'query',
        description: `The \`${CURSOR_HEADER}\` of the previous answer. Default: the first record that is stored.`,
        schema: { type: 'string', pattern: '^[a-zA-Z0-9_-]+$' },
      },
    ],
    answers: {
      200: {
        description:
          `The rows, one JSON object per line. The header \`${CURSOR_HEADER}\` has the cursor of the next request, and ` +
          `\`${MORE_HEADER}\` says whether more is stored already.`,
        mediaType: NDJSON,
        schema: { type: 'string' },
        headers: {
          [CURSOR_HEADER]: {
            description:
              'The `cursor` of the next request. The last answer has one too: it continues with what is stored later.',
            required: true,
            schema: { type: 'string', pattern: '^[a-zA-Z0-9_-]+$' },
          },
          [MORE_HEADER]: {
            description: 'Whether more is stored already.',
            required: true,
            schema: { type: 'string', enum: ['true', 'false'] },
          },
        },
      },
    },
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': {
        meaning:
          'A parameter is unknown or invalid, or the cursor is of another export or beyond what is stored.',
      },
      '404-01': { meaning: 'There is no such kind, or the path or method does not exist.' },
    },
    examples: {
      unknown: {
        summary: 'The kind does not exist',
        parameters: { kind: 'chats' },
        status: 404,
        answer: exampleError('404-01'),
      },
      cursor: {
        summary: 'The cursor is not of this export',
        parameters: { kind: 'messages', cursor: 'another' },
        status: 400,
        answer: exampleError('400-01', UNKNOWN_EXPORT_CURSOR),
      },
    },
  },
};
