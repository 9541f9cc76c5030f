import type { Clock } from '../../shared/clock.ts';
import { hasScope, type Scope } from '../../shared/contracts/scopes.ts';
import type { LimitedKey, ShownKey } from '../../shared/http/api-key-auth/api-key-auth.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { bearerToken } from '../../shared/http/headers.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import { type PortalToken, readPortalToken } from './portal-token.ts';

/** The scope that a portal token gives, which the API key that creates it needs. */
export const PORTAL_SCOPE: Scope = 'webhooks:manage';

/** The paths that a portal token may call, each with all paths below it. */
export const PORTAL_PATHS = [
  '/admin/v1/webhooks',
  '/admin/v1/deliveries',
  '/admin/v1/jobs',
  '/admin/v1/event-types',
] as const;

export function isPortalPath(path: string): boolean {
  return PORTAL_PATHS.some((allowed) => path === allowed || path.startsWith(`${allowed}/`));
}

/** The detail of a 403-01 to a valid token on another path. */
export const OTHER_PATH = {
  path: 'authorization',
  message: `a portal token may call only ${PORTAL_PATHS.join(', ')} and what is below them`,
};

/**
 * Returns a function that reads the portal token of a request. A token shows the API key that
 * created it, so the checks of keys apply to it: revocation, expiry, rotation, a disabled tenant and
 * rates. Expired and changed tokens, and those of another key ring, show nothing.
 */
export function createTokenReader({ keyRing, clock }: { readonly keyRing: KeyRing; readonly clock: Clock }) {
  return (c: HttpContext): ShownKey | undefined => {
    const text = bearerToken(c);
    const token = text === undefined ? undefined : readPortalToken(keyRing, text);
    if (!token || token.expiresAtMs <= clock.nowMs()) return undefined;
    const { apiKeyId, secretSha256 } = token;
    return { apiKeyId, secretSha256, limit: (key) => limitedTo(token, key, c.req.path) };
  };
}

function limitedTo(token: PortalToken, key: ApiKey, path: string): LimitedKey {
  if (key.tenantId !== token.tenantId) return { refusal: { code: '401-01' } };
  if (!isPortalPath(path)) return { refusal: { code: '403-01', details: [OTHER_PATH] } };
  const scopes = token.scopes.filter((scope) => hasScope(key.scopes, scope as Scope));
  return { key: { ...key, scopes } };
}
