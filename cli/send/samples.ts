import type { JsonObject } from '../../shared/contracts/json.ts';

/**
 * Samples for tests. The same number always gives the same sample, so a sample that is sent again
 * is deduplicated.
 */

const LANGUAGES = [['en-gb'], ['de', 'en'], ['fr'], ['es', 'pt-br']];
const PLATFORMS = ['WEB', 'IOS', 'ANDROID', 'VOICE', 'SMS'];
const AUGMENTATIONS = [['FREEHAND'], ['AUTOSUGGEST', 'FREEHAND'], ['PHRASE_AUTOCOMPLETE'], ['CUSTOM_INSERT']];
const EVENT_TYPES = ['processingStart', 'reply', 'processingEnd'];
const EVENTS_BEGIN_MS = Date.UTC(2026, 0, 1);

const pick = <T>(from: readonly T[], n: number): T => from[(n - 1) % from.length]!;

export function sampleAgent(n: number): JsonObject {
  return {
    externalAgentId: `sample-agent-${n}`,
    agentName: `Sample Agent ${n}`,
    emailAddress: `agent${n}@example.org`,
    languages: pick(LANGUAGES, n),
    groupId: `group-${n % 10}`,
    concurrency: 1 + (n % 5),
    attributes: [{ name: 'shift', value: n % 2 === 0 ? 'late' : 'early' }],
  };
}

export function sampleConversation(n: number): JsonObject {
  return {
    externalConversationId: `sample-conversation-${n}`,
    platform: pick(PLATFORMS, n),
    lobName: 'Support',
    companySegment: [`segment-${n % 3}`],
  };
}

export function sampleMessage(n: number): JsonObject {
  return {
    messageId: `sample-message-${n}`,
    conversationId: `SAMPLE${1 + (n % 100)}`,
    augmentationType: pick(AUGMENTATIONS, n),
    numEdits: n % 7,
    craftingTime: (n % 40) / 2,
  };
}

export function sampleEvent(n: number): JsonObject {
  const conversation = Math.ceil(n / EVENT_TYPES.length);
  const type = pick(EVENT_TYPES, n);
  return {
    conversationId: `SAMPLE${conversation}`,
    externalConversationId: `sample-conversation-${conversation}`,
    type,
    occurredAt: new Date(EVENTS_BEGIN_MS + n * 1000).toISOString(),
    ...(type === 'reply' && { reply: { messageId: `sample-reply-${n}`, text: 'How can I help?' } }),
  };
}
