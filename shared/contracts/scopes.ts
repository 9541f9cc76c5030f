/** Permissions of API keys. */
export const SCOPES = [
  'state:read',
  'credentials:write',
  'credentials:read',
  'credentials:erase',
  'agent-metadata:write',
  'conversation-metadata:write',
  'analytics:write',
  'automation:write',
  'webhooks:manage',
  'events:read',
  'records:read',
  'analytics:read',
  'keys:manage',
  'dead-letters:read',
  'dead-letters:write',
] as const;

export type Scope = (typeof SCOPES)[number];

/** The scope that includes every scope, even those of later releases. */
export const EVERY_SCOPE = '*';

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

export function hasScope(granted: readonly string[], needed: Scope): boolean {
  return granted.includes(needed) || granted.includes(EVERY_SCOPE);
}
