import { type ShownSecret, sha256Of, verifySecret } from '../../api-key-secrets.ts';
import type { Clock } from '../../clock.ts';
import { hasScope, type Scope } from '../../contracts/scopes.ts';
import { AppError } from '../../errors.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import type { Check, HttpContext } from '../env.ts';
import { fail } from '../failures.ts';
import { API_ID_HEADER, API_SECRET_HEADER } from '../headers.ts';
import { type RequestRates, requestRate } from '../rates/request-rate.ts';
import type { KeyCache } from './key-cache.ts';
import { KEYS_UNAVAILABLE } from './key-lookup.ts';

/** The form of a key's id. Requests with any other id are refused without a look-up. */
const ID = /^[\x21-\x7e]{1,128}$/;

export interface AccessOptions {
  readonly keys: KeyCache;
  readonly clock: Clock;
  readonly rates: RequestRates;
}

/** The checks of a caller's access to an operation, which its scope identifies. */
export interface AccessChecks {
  /** Returns the checks before the body is read: API key, scope and request rate. */
  before(scope: Scope): [Check, Check, Check];
  /**
   * Returns the checks after the body was read: API key and scope again. The transfer of a body may
   * take a minute.
   */
  after(scope: Scope): [Check, Check];
}

export function createAccessChecks({ keys, clock, rates }: AccessOptions): AccessChecks {
  return {
    before: (scope) => [requireApiKey(keys, clock), requireScope(scope), requestRate(rates, scope)],
    after: (scope) => [requireApiKeyAgain(keys, clock), requireScope(scope)],
  };
}

/**
 * Accepts requests with a valid API key and its secret. Refuses all others with 401-01, those of a
 * disabled tenant with 403-01, and unknown keys or secrets with 503-01 while the store is
 * unavailable. Reads headers only. If the secret differs from the cached one, the key is looked up
 * again, so that a new secret works immediately.
 */
export function requireApiKey(keys: KeyCache, clock: Clock): Check {
  const accept = (c: HttpContext, key: ApiKey, shown: ShownSecret) => {
    keys.keep(key);
    if (key.revoked || hasEnded(key.expiresAtMs, clock.nowMs())) return fail(c, '401-01');
    if (key.tenantDisabled) {
      return fail(c, '403-01', [{ path: 'service-api-id', message: 'the tenant of the key is disabled' }]);
    }
    keys.used(key.apiKeyId);
    c.env?.onKeyShown?.();
    c.set('apiKey', key);
    c.set('secretIsPrevious', shown === 'previous');
    return undefined;
  };
  const lookUp = async (c: HttpContext, id: string, given: Buffer) => {
    try {
      const key = await keys.find(id);
      const shown = verifySecret(given, key, clock.nowMs());
      return key && shown ? accept(c, key, shown) : fail(c, '401-01');
    } catch (error) {
      if (error instanceof AppError && error.code === KEYS_UNAVAILABLE) return fail(c, '503-01');
      throw error;
    }
  };
  return (c) => {
    const id = c.req.header(API_ID_HEADER);
    const secret = c.req.header(API_SECRET_HEADER);
    if (!id || !secret || !ID.test(id)) return fail(c, '401-01');
    const given = sha256Of(secret);
    const cached = keys.peek(id);
    const shown = verifySecret(given, cached, clock.nowMs());
    return cached && shown ? accept(c, cached, shown) : lookUp(c, id, given);
  };
}

/**
 * Repeats {@link requireApiKey} after the body was read: the key may have been revoked, or its
 * tenant disabled. An unchanged key is still the same object in the cache, so usually no secrets
 * are compared.
 */
function requireApiKeyAgain(keys: KeyCache, clock: Clock): Check {
  const checkAll = requireApiKey(keys, clock);
  return (c) => {
    const key = c.get('apiKey');
    const secretUntilMs = c.get('secretIsPrevious') ? key.previousSecret?.validUntilMs : undefined;
    const nowMs = clock.nowMs();
    const isSame =
      keys.peek(key.apiKeyId) === key && !hasEnded(key.expiresAtMs, nowMs) && !hasEnded(secretUntilMs, nowMs);
    return isSame ? undefined : checkAll(c);
  };
}

/**
 * Accepts keys with the scope; refuses all other keys with 403-01. Runs after the API key check.
 */
function requireScope(scope: Scope): Check {
  return (c) => {
    if (hasScope(c.get('apiKey').scopes, scope)) return undefined;
    return fail(c, '403-01', [{ path: 'service-api-id', message: `the key lacks the scope ${scope}` }]);
  };
}

function hasEnded(endMs: number | undefined, nowMs: number): boolean {
  return endMs !== undefined && endMs <= nowMs;
}
