import type { ApiKeyDescription } from '../../postgres/api-keys.ts';

/** `rotating`: two secrets are valid. */
export type KeyState = 'valid' | 'rotating' | 'expired' | 'revoked';

/**
 * Returns the description of a key at the given time, as shown by the command and `/admin/v1/keys`.
 */
export function describeApiKey(key: ApiKeyDescription, nowMs: number) {
  const state = stateOf(key, nowMs);
  return {
    apiKeyId: key.apiKeyId,
    name: key.name,
    scopes: key.scopes,
    rate: key.rate,
    state,
    createdAt: timeOf(key.createdAtMs),
    createdBy: key.createdBy,
    expiresAt: timeOf(key.expiresAtMs),
    revokedAt: timeOf(key.revokedAtMs),
    lastUsedAt: timeOf(key.lastUsedAtMs),
    previousSecretValidUntil: state === 'rotating' ? timeOf(key.previousValidUntilMs) : null,
  };
}

function stateOf(
  { revokedAtMs, expiresAtMs, previousValidUntilMs }: ApiKeyDescription,
  nowMs: number,
): KeyState {
  if (revokedAtMs !== null) return 'revoked';
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return 'expired';
  return previousValidUntilMs !== null && previousValidUntilMs > nowMs ? 'rotating' : 'valid';
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
