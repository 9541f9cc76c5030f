import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { EVERY_SCOPE } from '../../../shared/contracts/scopes.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';

/** What a key may do: its scopes, and until when. */
export interface Grant {
  readonly scopes: readonly string[];
  /** Null: without an end. */
  readonly expiresAtMs: number | null;
}

/**
 * What forbids the caller's `own` key to give `wanted` away. Who holds a key must not get more by another one, whether it
 * is made or gets a new secret: no other scope, no longer life, and where it has a rate no other key at all, since two of
 * the same rate have twice that. Only '*' covers '*', which later releases widen.
 */
export function beyondGrant(own: ApiKey, wanted: Grant): ErrorDetail[] {
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
    const message = 'your key has a rate of its own, and so makes no other keys and rotates only itself';
    details.push({ path: 'rate', message });
  }
  return details;
}
