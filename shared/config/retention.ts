import type { Kind } from '../contracts/kinds.ts';
import type { Config } from './config.ts';
import type { retention } from './retention-settings.ts';

export type RetentionSetting = keyof typeof retention;

/** What has a retention of its own. */
export const RETAINED = [
  'agents',
  'conversations',
  'messages',
  'events',
  'credentials',
  'webhooks',
  'audit',
] as const;

export type Retained = (typeof RETAINED)[number];

/** Days for which rows are kept. Undefined: for ever. */
export type RetentionDays = { readonly [What in Retained]?: number | undefined };

export const RETENTION_SETTINGS: Readonly<Record<Retained, RetentionSetting>> = {
  agents: 'SLUICE_RETENTION_AGENTS_DAYS',
  conversations: 'SLUICE_RETENTION_CONVERSATIONS_DAYS',
  messages: 'SLUICE_RETENTION_MESSAGES_DAYS',
  events: 'SLUICE_RETENTION_EVENTS_DAYS',
  credentials: 'SLUICE_RETENTION_CREDENTIALS_DAYS',
  webhooks: 'SLUICE_RETENTION_WEBHOOKS_DAYS',
  audit: 'SLUICE_RETENTION_AUDIT_DAYS',
};

/** The retention of each kind of record. */
export const RETAINED_AS: Readonly<Record<Kind, Retained>> = {
  'agent-metadata': 'agents',
  'conversation-metadata': 'conversations',
  'message-sent': 'messages',
  'automation-events': 'events',
  credentials: 'credentials',
};

export function retentionOf(config: Config<RetentionSetting>): RetentionDays {
  const days = RETAINED.map((retained) => [retained, config[RETENTION_SETTINGS[retained]]]);
  return Object.fromEntries(days);
}
