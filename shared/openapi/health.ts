import type { JsonSchema } from '../contracts/json-schema.ts';
import { schemaRef } from './document.ts';
import type { OperationDescription, Operations } from './operation.ts';

const NAMES = ' The public listener reports names only; its log has the texts.';

export const HEALTH_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['status'],
  properties: {
    status: { type: 'string', enum: ['ok', 'unavailable'] },
    reasons: { type: 'array', items: { type: 'string' }, description: `Why it is unavailable.${NAMES}` },
    notes: {
      type: 'array',
      items: { type: 'string' },
      description: `Problems that do not make it unavailable.${NAMES}`,
    },
  },
};

/** The operations without an API key, which every listener has. */
export const HEALTH_OPERATIONS: Operations = {
  'GET /health/live': health('live', 'Whether the process works', 'The process should be restarted.'),
  'GET /health/ready': health(
    'ready',
    'Whether requests are accepted',
    'Requests should be routed elsewhere.',
  ),
};

function health(name: string, summary: string, unavailable: string): OperationDescription {
  return {
    operationId: `health-${name}`,
    tag: 'health',
    summary,
    description: 'Needs no key.',
    answers: {
      200: { description: 'Yes.', schema: schemaRef('Health') },
      503: { description: unavailable, schema: schemaRef('Health') },
    },
    examples: { ok: { summary: 'All is well', status: 200, answer: { status: 'ok' } } },
  };
}
