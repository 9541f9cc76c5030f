import { schemaRef } from '../../../shared/openapi/document.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { BATCH_BODY_BYTES_MAX } from '../../limits/policies.ts';
import { MANY_ANSWERS } from '../results-openapi.ts';

const AUGMENTED = { augmentationType: ['PHRASE_AUTOCOMPLETE', 'FREEHAND'] };
const COUNTED = { ...AUGMENTED, phraseAutocompletePresentedCt: 4, phraseAutocompleteSelectedCt: 1 };

export const MANY_MESSAGE_SENT: OperationDescription = {
  operationId: 'add-many-message-sent',
  tag: 'analytics',
  summary: 'Add a batch of MessageSent events',
  description:
    'The same events as in requests of one event, for feeds and files. The `eventId` of a result is the `messageId` of ' +
    'its item. Items are accepted or refused one by one; 200 if at least one is accepted.',
  scope: 'analytics:write',
  body: { schema: schemaRef('MessageSentItems'), bytesMax: BATCH_BODY_BYTES_MAX },
  reportsKnownRecords: true,
  answers: MANY_ANSWERS,
  refusals: ['422-01'],
  examples: {
    minimal: {
      summary: 'Only the required members of one event',
      body: { items: [{ messageId: 'docs-many-1', augmentationType: ['FREEHAND'] }] },
      status: 200,
      answer: { errorCount: 0, results: [{ eventId: 'docs-many-1', error: '' }] },
    },
    full: {
      summary: 'Two events of a conversation',
      body: {
        items: [
          {
            messageId: 'docs-many-2',
            conversationId: 'DOCS1',
            externalConversationId: 'docs-1',
            ...AUGMENTED,
          },
          { messageId: 'docs-many-3', conversationId: 'DOCS1', externalConversationId: 'docs-1', ...COUNTED },
        ],
      },
      status: 200,
      answer: {
        errorCount: 0,
        results: [
          { eventId: 'docs-many-2', error: '' },
          { eventId: 'docs-many-3', error: '' },
        ],
      },
    },
    partlyRefused: {
      summary: 'Three of four items are refused',
      body: {
        items: [
          { messageId: 'docs-many-4', augmentationType: ['FREEHAND'] },
          { augmentationType: ['FREEHAND'] },
          { messageId: 'docs-many-2', augmentationType: ['FREEHAND'] },
          {
            messageId: 'docs-many-5',
            augmentationType: ['FREEHAND'],
            occurredAt: '2026-01-02T03:04:05.678Z',
          },
        ],
      },
      status: 200,
      answer: {
        errorCount: 3,
        results: [
          { eventId: 'docs-many-4', error: '' },
          { eventId: EXAMPLE_ULID, error: 'FAIL_BAD_PARAMS: ERROR: messageId is required' },
          {
            eventId: 'docs-many-2',
            error: 'FAIL_CONFLICT: this messageId was accepted before with other content',
          },
          {
            eventId: 'docs-many-5',
            error:
              'FAIL_BAD_PARAMS: ERROR: occurredAt must be at most 7 days before and 5 minutes after the request',
          },
        ],
      },
    },
    allRefused: {
      summary: 'No item was accepted',
      body: { items: [{ messageId: 'docs-many-6', augmentationType: [] }] },
      status: 400,
      answer: {
        errorCount: 1,
        results: [
          {
            eventId: 'docs-many-6',
            error: 'FAIL_BAD_PARAMS: ERROR: augmentationType must have at least one entry',
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
