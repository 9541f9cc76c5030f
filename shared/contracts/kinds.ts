/**
 * The five kinds of records. A kind is also the last part of its topic's name and of its
 * CloudEvents type.
 */
export const KINDS = [
  'agent-metadata',
  'conversation-metadata',
  'credentials',
  'message-sent',
  'automation-events',
] as const;

export type Kind = (typeof KINDS)[number];

export function isKind(text: string): text is Kind {
  return (KINDS as readonly string[]).includes(text);
}

/** Returns `<prefix><kind>`, the topic of a kind's records. */
export function topicOf(prefix: string, kind: Kind): string {
  return `${prefix}${kind}`;
}

/**
 * Returns `<topic>.dead-letter`, to which earlier releases published records that could not be
 * stored.
 */
export function deadLetterTopicOf(topic: string): string {
  return `${topic}.dead-letter`;
}
