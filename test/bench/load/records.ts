import type { JsonObject } from '../../../shared/contracts/json.ts';

/** Records with all members. The caller chooses ids of a fixed width and replaces their bytes. */

/** Returns a MessageSent event. */
export function messageSent(messageId: string, conversationId: string): JsonObject {
  return {
    conversationId,
    messageId,
    augmentationType: ['AUTOSUGGEST', 'PHRASE_AUTOCOMPLETE', 'FREEHAND'],
    numEdits: 3,
    initialSuggestionsId: '01JABCDEFGHJKMNPQRSTVWXYZ0',
    phraseAutocompletePresentedCt: 4,
    selectedSuggestionText: 'Thank you for your patience, I am looking into it now.',
    selectedSuggestionsId: '01JABCDEFGHJKMNPQRSTVWXYZ0',
    selectedSuggestionIndex: 2,
    timeToAction: 1.25,
    craftingTime: 8.5,
    dwellTime: 0.75,
    phraseAutocompleteSelectedCt: 1,
  };
}

/** Returns an item of a request of many agents. */
export function agent(eventId: string, externalAgentId: string): JsonObject {
  return {
    eventId,
    externalAgentId,
    startTs: '2026-01-02T03:04:05.123456789Z',
    lobId: 'lob-7',
    lobName: 'Consumer mobile',
    groupId: 'group-12',
    groupName: 'Billing and payments',
    agentName: 'Alexandra Example',
    agentLocation: 'Lisbon',
    supervisorId: 'supervisor-3',
    supervisorName: 'Sam Supervisor',
    languages: ['en-gb', 'de'],
    concurrency: 3,
    categoryLabel: 'tier-1',
    accountAccessLevel: 'standard',
    ranking: 17,
    vendor: 'in-house',
    jobTitle: 'Customer care specialist',
    jobRole: 'agent',
    workShift: 'early',
    emailAddress: 'alexandra@example.org',
    attributes: [
      { name: 'floor', value: '3' },
      { name: 'skill', value: 'refunds' },
    ],
  };
}

/** Returns an item of the engine's feed: a reply of the automated agent. */
export function automationReply(eventId: string, externalConversationId: string): JsonObject {
  return {
    eventId,
    conversationId: '01JABCDEFGHJKMNPQRSTVWXYZ0',
    externalConversationId,
    type: 'reply',
    occurredAt: '2026-01-02T03:04:05.123456789Z',
    currentTaskName: 'refund',
    inputVariables: { order: '1234567', amount: 12.5 },
    reply: {
      messageId: '01JABCDEFGHJKMNPQRSTVWXYZ0',
      text: 'Thank you for your patience, I am looking into it now.',
    },
    transferToSystem: { referenceVariables: { ticket: 'T-17' }, currentTaskName: 'refund' },
  };
}

/** Returns the body of an authenticate request. */
export function credentials(customerExternalId: string): JsonObject {
  return { customerExternalId, auth: { token: 'a-token-of-the-length-that-tokens-have' } };
}
