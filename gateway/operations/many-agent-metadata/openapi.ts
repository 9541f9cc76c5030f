import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import { AGENT_EXAMPLE } from '../../../shared/openapi/example-records.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { BATCH_BODY_BYTES_MAX } from '../../limits/policies.ts';
import { MANY_ANSWERS } from '../results-openapi.ts';

const FULL = { eventId: 'docs-agent-1', ...AGENT_EXAMPLE };

export const MANY_AGENT_METADATA: OperationDescription = {
  operationId: 'add-many-agent-metadata',
  tag: 'metadata',
  summary: 'Add metadata of a batch of agents',
  description:
    'Each item is a merge patch on the stored metadata of its agent: an omitted member keeps the value, `null` clears it, an array replaces it. ' +
    'Items are accepted or refused one by one; 200 if at least one is accepted.',
  scope: 'agent-metadata:write',
  body: { schema: schemaRef('AgentItems'), bytesMax: BATCH_BODY_BYTES_MAX },
  reportsKnownRecords: true,
  answers: MANY_ANSWERS,
  refusals: ['422-01'],
  examples: {
    minimal: {
      summary: 'One agent, without an id: a repeat is a new record',
      body: { items: [{ externalAgentId: 'agent-1' }] },
      status: 200,
      answer: { errorCount: 0, results: [{ eventId: EXAMPLE_ULID, error: '' }] },
    },
    full: {
      summary: 'Every member, and an agent whose e-mail address is cleared',
      body: {
        items: [FULL, { eventId: 'docs-agent-2', externalAgentId: 'agent-2', emailAddress: null }],
      },
      status: 200,
      answer: {
        errorCount: 0,
        results: [
          { eventId: 'docs-agent-1', error: '' },
          { eventId: 'docs-agent-2', error: '' },
        ],
      },
    },
    partlyRefused: {
      summary: 'Two of four items are refused',
      body: {
        items: [
          { eventId: 'docs-agent-3', externalAgentId: 'agent-3' },
          { externalAgentId: ' ' },
          { eventId: 'docs-agent-1', externalAgentId: 'agent-1', agentName: 'Ida' },
          { eventId: 'docs-agent-4', externalAgentId: 'agent-4', concurrency: 2 },
        ],
      },
      status: 200,
      answer: {
        errorCount: 2,
        results: [
          { eventId: 'docs-agent-3', error: '' },
          { eventId: EXAMPLE_ULID, error: 'FAIL_BAD_PARAMS: ERROR: agent id cannot be blank' },
          {
            eventId: 'docs-agent-1',
            error: 'FAIL_CONFLICT: this eventId was accepted before with other content',
          },
          { eventId: 'docs-agent-4', error: '' },
        ],
      },
    },
    allRefused: {
      summary: 'No item was accepted',
      body: { items: [{ eventId: 'docs-agent-5', externalAgentId: 'agent-5', concurrency: -1 }] },
      status: 400,
      answer: {
        errorCount: 1,
        results: [
          {
            eventId: 'docs-agent-5',
            error: 'FAIL_BAD_PARAMS: ERROR: concurrency must be a whole number from 0 to 2147483647',
          },
        ],
      },
    },
    noItems: {
      summary: 'The request has no items',
      body: { items: [] },
      status: 422,
      answer: exampleError('422-01', { path: 'items', message: 'must have at least one entry' }),
    },
  },
};
