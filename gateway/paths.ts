/** The paths of the operations. */
export const PATHS = {
  state: '/automation-agent/v1/state',
  authenticate: '/conversation/v1/conversations/:conversationId/authenticate',
  manyAgentMetadata: '/metadata-ingestion/v1/many-agent-metadata',
  singleConvoMetadata: '/metadata-ingestion/v1/single-convo-metadata',
  messageSent: '/compose-assist/v1/analytics/message-sent',
  manyMessageSent: '/compose-assist/v1/analytics/many-message-sent',
  automationEvents: '/automation-agent/v1/events',
} as const;
