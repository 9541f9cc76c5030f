import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { BATCH_BODY_BYTES_MAX } from '../../limits/policies.ts';
import { MANY_ANSWERS } from '../results-openapi.ts';

const ABOUT = { conversationId: 'DOCS1', externalConversationId: 'docs-1' };
const IDS = [
  '01KE1B3Q0D000000000000000A',
  '01KE1B3Q0D000000000000000B',
  '01KE1B3Q0D000000000000000C',
  '01KE1B3Q0D000000000000000D',
] as const;

export const AUTOMATION_EVENTS: OperationDescription = {
  operationId: 'add-automation-events',
  tag: 'automation',
  summary: 'Add events of the automated agent',
  description:
    "Events of the automated agent. Each event is sent to the tenant's webhook endpoints and updates the state of its " +
    'conversation, in the order in which events arrive. Items are accepted or refused one by one.',
  scope: 'automation:write',
  body: { schema: schemaRef('AutomationEventItems'), bytesMax: BATCH_BODY_BYTES_MAX },
  reportsKnownRecords: true,
  answers: {
    ...MANY_ANSWERS,
    200: {
      ...MANY_ANSWERS[200],
      links: {
        state: {
          operationId: 'read-automation-state',
          parameters: { externalId: '$request.body#/items/0/externalConversationId' },
          description: 'The state of the conversation, once the events are stored.',
        },
      },
    },
  },
  refusals: ['422-01'],
  examples: {
    minimal: {
      summary: 'The agent starts to process a conversation',
      body: {
        items: [
          { ...ABOUT, eventId: IDS[0], type: 'processingStart', occurredAt: '2026-01-02T03:04:05.678Z' },
        ],
      },
      status: 200,
      answer: { errorCount: 0, results: [{ eventId: IDS[0], error: '' }] },
    },
    full: {
      summary: 'A reply, the end of the processing, and a transfer to the calling system',
      body: {
        items: [
          {
            ...ABOUT,
            eventId: IDS[1],
            type: 'reply',
            occurredAt: '2026-01-02T03:04:06.000000001Z',
            currentTaskName: 'Greeting',
            inputVariables: { order: 4711 },
            reply: { messageId: 'docs-reply-1', text: 'Hello!' },
          },
          { ...ABOUT, eventId: IDS[2], type: 'processingEnd', occurredAt: '2026-01-02T04:04:06+01:00' },
          {
            ...ABOUT,
            eventId: IDS[3],
            type: 'transferToSystem',
            occurredAt: '2026-01-02T03:04:07Z',
            transferToSystem: {
              referenceVariables: { ticket: 'T-1' },
              transferVariables: { reason: 'done' },
              currentTaskName: 'Farewell',
            },
          },
        ],
      },
      status: 200,
      answer: { errorCount: 0, results: IDS.slice(1).map((eventId) => ({ eventId, error: '' })) },
    },
    partlyRefused: {
      summary: 'A reply without its text is refused, the other event is accepted',
      body: {
        items: [
          { ...ABOUT, type: 'reply', occurredAt: '2026-01-02T03:04:08Z' },
          { ...ABOUT, eventId: IDS[0], type: 'processingStart', occurredAt: '2026-01-02T03:04:05.678Z' },
        ],
      },
      status: 200,
      answer: {
        errorCount: 1,
        results: [
          { eventId: EXAMPLE_ULID, error: 'FAIL_BAD_PARAMS: ERROR: reply is required when type is reply' },
          { eventId: IDS[0], error: '' },
        ],
      },
    },
    allRefused: {
      summary: 'No event was accepted',
      body: { items: [{ ...ABOUT, type: 'processingStart', occurredAt: '2026-01-02 03:04' }] },
      status: 400,
      answer: {
        errorCount: 1,
        results: [
          {
            eventId: EXAMPLE_ULID,
            error:
              'FAIL_BAD_PARAMS: ERROR: occurredAt must be an RFC 3339 timestamp with offset, at most nine fraction digits, from 1678 to 2261',
          },
        ],
      },
    },
    noItems: {
      summary: 'The request has no items',
      body: {},
      status: 422,
      answer: exampleError('422-01', { path: 'items', message: 'is required' }),
    },
  },
};
