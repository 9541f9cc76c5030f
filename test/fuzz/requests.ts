import type { Random } from './random.ts';

/** A valid request, before mutation. */
export interface ValidRequest {
  readonly method: string;
  readonly path: string;
  /** Undefined for the operation that reads state. */
  readonly body: object | undefined;
}

const TEXTS = ['Ada', 'ü 😀', 'a\nb', 'x'.repeat(200), '', '0'];
const AUGMENTATIONS = ['FREEHAND', 'AUTOSUGGEST', 'GLOBAL_INSERT', 'FLUENCY_UNDO'];
const EVENT_TYPES = ['processingStart', 'processingEnd', 'confirmationRequired', 'transferToAgent'];

/** Returns a valid request of a random operation, whose ids start with `id`. */
export function validRequest(random: Random, id: string): ValidRequest {
  const post = (path: string, body: object): ValidRequest => ({ method: 'POST', path, body });
  switch (random.below(7)) {
    case 0:
      return { method: 'GET', path: `/automation-agent/v1/state?externalId=${id}`, body: undefined };
    case 1:
      return post(`/conversation/v1/conversations/${id.toUpperCase().replaceAll('-', '')}/authenticate`, {
        customerExternalId: id,
        streamId: random.of([id, null]),
        auth: { token: 'a-token', body: { a: [1, { b: null }] }, cookies: { c: 1.5 }, headers: {} },
      });
    case 2:
      return post('/metadata-ingestion/v1/many-agent-metadata', {
        items: Array.from({ length: 1 + random.below(5) }, (_, index) => ({
          externalAgentId: `${id}-${index}`,
          eventId: `${id}-${index}`,
          startTs: '2026-01-02T03:04:05.123456789+01:00',
          agentName: random.of(TEXTS),
          languages: ['en-gb', 'DE'],
          concurrency: random.below(10),
          ranking: -random.below(10),
          emailAddress: 'name@example.org',
          attributes: [{ name: 'n', value: random.of(TEXTS) }],
        })),
      });
    case 3:
      return post('/metadata-ingestion/v1/single-convo-metadata', {
        externalConversationId: id,
        eventId: id,
        lobName: random.of(TEXTS),
        deviceType: 'PHONE',
        platform: 'WEB',
        companySegment: ['a', 'b'],
        browserVersion: '1.2.3',
        attributes: [{ name: 'n', value: 'v' }],
      });
    case 4:
      return post('/compose-assist/v1/analytics/message-sent', messageSent(random, id));
    case 5:
      return post('/compose-assist/v1/analytics/many-message-sent', {
        items: Array.from({ length: 1 + random.below(5) }, (_, index) =>
          messageSent(random, `${id}-${index}`),
        ),
      });
    default:
      return post('/automation-agent/v1/events', {
        items: Array.from({ length: 1 + random.below(4) }, () => ({
          conversationId: 'CONV1',
          externalConversationId: id,
          type: random.of(EVENT_TYPES),
          occurredAt: '2026-01-02T03:04:05Z',
          currentTaskName: random.of(TEXTS),
          inputVariables: { a: { b: [1, 2, { c: 'd' }] } },
          reply: { messageId: id, text: random.of(TEXTS) },
          transferToSystem: { referenceVariables: { r: 1 }, transferVariables: {} },
        })),
      });
  }
}

function messageSent(random: Random, messageId: string): object {
  return {
    messageId,
    conversationId: random.of(['CONV1', '', null]),
    augmentationType: [random.of(AUGMENTATIONS), random.of(AUGMENTATIONS)],
    numEdits: random.below(100),
    selectedSuggestionText: random.of(TEXTS),
    selectedSuggestionIndex: 1 + random.below(3),
    timeToAction: random.next() * 10,
    externalConversationId: random.of(['chat-1', null]),
  };
}
