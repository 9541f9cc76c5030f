import { call } from './sluice.ts';

const { status, text } = await call('POST', '/compose-assist/v1/analytics/message-sent', {
  messageId: 'ts-message-1',
  conversationId: 'CHAT1',
  augmentationType: ['AUTOSUGGEST', 'FREEHAND'],
  numEdits: 4,
  selectedSuggestionIndex: 1,
  craftingTime: 7.5,
});
console.log(status === 200 ? 'accepted' : `refused: ${status} ${text}`);
