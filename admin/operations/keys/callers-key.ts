import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { EVERY_SCOPE } from '../../../shared/contracts/scopes.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import { API_SECRET_HEADER } from '../../../shared/http/headers.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';

/** The rights of an API key. */
export interface Grant {
  readonly scopes: readonly string[];
  /** Null if the key does not expire. */
  readonly expiresAtMs: number | null;
}

/**
 * Refuses the previous secret of a rotated API key with 403-01. That secret may have leaked, so it
 * must not revoke or rotate the key, nor create a key that outlives it. Runs after the API key
 * check.
 */
export function requireCurrentSecret(c: HttpContext): Response | undefined {
  if (!c.get('secretIsPrevious')) return undefined;
  const message = 'the secret is the previous one since the last rotation: use the new one';
  return fail(c, '403-01', [{ path: API_SECRET_HEADER, message }]);
}

/**
 * Returns why the caller's `own` key must not grant `wanted` to a key that it creates or rotates.
 * Prevents privilege escalation: a scope that `own` lacks, or a later expiry. A key with its own
 * rate grants nothing, since two keys have twice the rate. Only the scope '*' covers '*', because
 * later releases extend '*'.
 */
export function grantProblem(own: ApiKey, wanted: Grant): ErrorDetail[] {
  const details: ErrorDetail[] = [];
  if (!own.scopes.includes(EVERY_SCOPE)) {
    for (const scope of wanted.scopes) {
      if (own.scopes.includes(scope)) continue;
      details.push({ path: 'scopes', message: `your key lacks the scope ${scope}` });
    }
  }
  if (own.expiresAtMs !== undefined && (wanted.expiresAtMs ?? Infinity) > own.expiresAtMs) {
    const until = new Date(own.expiresAtMs).toISOString();
    details.push({ path: 'expiresAt', message: `must not be later than that of your own key, ${until}` });
  }
  if (own.limits.keyRate !== undefined) {
    const message = 'your key has its own rate: it creates no keys, and rotates only itself';
    details.push({ path: 'rate', message });
  }
  return details;
}
