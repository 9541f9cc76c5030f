import { schemaRef } from '../../../shared/openapi/document.ts';
import { exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { BODY_BYTES_MAX } from '../../limits/policies.ts';

const FULL = {
  messageId: 'docs-message-2',
  conversationId: 'DOCS1',
  augmentationType: ['AUTOSUGGEST', 'FREEHAND', 'AUTOSUGGEST'],
  numEdits: 3,
  initialSuggestionsId: 'docs-suggestions-1',
  selectedSuggestionText: 'How can I help?',
  selectedSuggestionsId: 'docs-suggestions-2',
  selectedSuggestionIndex: 1,
  timeToAction: 2.5,
  craftingTime: 11,
  dwellTime: 0.75,
  phraseAutocompletePresentedCt: 4,
  phraseAutocompleteSelectedCt: 1,
  externalConversationId: 'docs-1',
};

export const MESSAGE_SENT: OperationDescription = {
  operationId: 'add-message-sent',
  tag: 'analytics',
  summary: 'Add a MessageSent event',
  description:
    'How an agent wrote one message. Omitted members are stored as `""` or 0, apart from `externalConversationId` and ' +
    '`occurredAt`; which numbers were omitted is stored too. Without `occurredAt`, the time of the event is when it was accepted.',
  scope: 'analytics:write',
  body: { schema: schemaRef('MessageSent'), bytesMax: BODY_BYTES_MAX },
  reportsKnownRecords: true,
  answers: { 200: { description: 'The event is accepted. No body.' } },
  refusals: ['409-01', '422-01'],
  examples: {
    minimal: {
      summary: 'Only the required members',
      body: { messageId: 'docs-message-1', augmentationType: ['FREEHAND'] },
      status: 200,
    },
    full: { summary: 'Every member but `occurredAt`, which must be recent', body: FULL, status: 200 },
    conflict: {
      summary: 'The message was accepted before with other content',
      body: { ...FULL, numEdits: 0 },
      status: 409,
      answer: exampleError('409-01', {
        path: 'messageId',
        message: 'this messageId was accepted before with other content',
      }),
    },
    refused: {
      summary: 'Two members are invalid',
      body: { messageId: 'docs-message-3', augmentationType: [], selectedSuggestionIndex: 0 },
      status: 422,
      answer: exampleError(
        '422-01',
        { path: 'augmentationType', message: 'must have at least one entry' },
        { path: 'selectedSuggestionIndex', message: 'must be a whole number from 1 to 2147483647' },
      ),
    },
  },
};
