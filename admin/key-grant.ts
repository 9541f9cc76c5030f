import type { ErrorDetail } from '../shared/contracts/errors.ts';
import { EVERY_SCOPE } from '../shared/contracts/scopes.ts';
import { listApiKeys } from '../shared/postgres/list-api-keys.ts';
import type { Queryable } from '../shared/postgres/pool.ts';

/** What a key may do: its scopes, until when, and how often. */
export interface Grant {
  readonly scopes: readonly string[];
  readonly expiresAtMs: number | null;
  readonly rate: number | null;
}

/**
 * What `wanted` has that the caller's own key has not. Who holds a key must not get more by another one, whether it is
 * made or gets a new secret: no other scope, no longer life, no higher rate. Only '*' covers '*', which later releases widen.
 */
export function beyondGrant(own: Grant, wanted: Grant): ErrorDetail[] {
  const details: ErrorDetail[] = [];
  if (!own.scopes.includes(EVERY_SCOPE)) {
    for (const scope of wanted.scopes) {
      if (own.scopes.includes(scope)) continue;
      details.push({ path: 'scopes', message: `your key lacks the scope ${scope}` });
    }
  }
  if (own.expiresAtMs !== null && (wanted.expiresAtMs ?? Infinity) > own.expiresAtMs) {
    const until = new Date(own.expiresAtMs).toISOString();
    details.push({ path: 'expiresAt', message: `must not be later than that of your own key, ${until}` });
  }
  if (own.rate !== null && (wanted.rate ?? Infinity) > own.rate) {
    details.push({ path: 'rate', message: `must not be above that of your own key, ${own.rate}` });
  }
  return details;
}

/**
 * The caller's key as it is stored now, since a listener may learn seconds later that it was revoked: then undefined,
 * as for one that expired meanwhile.
 */
export async function ownGrant(
  db: Queryable,
  { tenantId, apiKeyId }: { readonly tenantId: string; readonly apiKeyId: string },
  nowMs: number,
): Promise<Grant | undefined> {
  const [key] = await listApiKeys(db, tenantId, apiKeyId);
  if (!key || key.revokedAtMs !== null) return undefined;
  return key.expiresAtMs === null || key.expiresAtMs > nowMs ? key : undefined;
}
