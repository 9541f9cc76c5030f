import { Agent, request } from 'node:http';

/** Returns a function that sends MessageSent events over this number of persistent connections. */
export function createSender(port: number, connections: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  let sent = 0;
  /** Sends one event. Resolves with the status once the whole answer has arrived. */
  return (apiKeyId: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({
        messageId: `m-${process.pid}-${++sent}`,
        conversationId: `c-${sent % 100}`,
        augmentationType: ['AUTOSUGGEST', 'FREEHAND'],
        numEdits: 3,
        initialSuggestionsId: 'suggestions-1',
        selectedSuggestionText: 'Thank you for your patience, I am looking into it now.',
      });
      const sending = request(
        {
          agent,
          port,
          host: '127.0.0.1',
          path: '/compose-assist/v1/analytics/message-sent',
          method: 'POST',
          headers: {
            'service-api-id': apiKeyId,
            'service-api-secret': 'secret',
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
          },
        },
        (answer) => {
          answer.resume();
          answer.on('end', () => resolve(answer.statusCode!));
        },
      );
      sending.on('error', reject);
      sending.end(body);
    });
}
