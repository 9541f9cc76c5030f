import { type ShownSecret, sha256Of, verifySecret } from '../../api-key-secrets.ts';
import type { Clock } from '../../clock.ts';
import type { Refusal } from '../../contracts/errors.ts';
import { hasScope, type Scope } from '../../contracts/scopes.ts';
import { AppError } from '../../errors.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import type { Check, HttpContext } from '../env.ts';
import { fail, refuse } from '../failures.ts';
import { API_ID_HEADER, API_SECRET_HEADER, bearerToken } from '../headers.ts';
import { type RequestRates, requestRate } from '../rates/request-rate.ts';
import type { KeyCache } from './key-cache.ts';
import { KEYS_UNAVAILABLE } from './key-lookup.ts';

/** The form of a key's id. Requests with any other id are refused without a look-up. */
const ID = /^[\x21-\x7e]{1,128}$/;

/** What a request shows of an API key. */
export interface ShownKey {
  readonly apiKeyId: string;
  /** The SHA-256 of a secret, which may be wrong. */
  readonly secretSha256: Buffer;
  /**
   * Returns the key with the rights of this request, or the refusal of the request. Called with a
   * valid key. Default: the request has all rights of the key.
   */
  readonly limit?: (key: ApiKey) => LimitedKey;
}

export type LimitedKey =
  | { readonly key: ApiKey; readonly refusal?: undefined }
  | { readonly refusal: Refusal };

export interface AccessOptions {
  readonly keys: KeyCache;
  readonly clock: Clock;
  readonly rates: RequestRates;
  /** Returns what a request without the headers of an API key shows. Default: nothing. */
  readonly readToken?: (c: HttpContext) => ShownKey | undefined;
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

export function createAccessChecks(options: AccessOptions): AccessChecks {
  return {
    before: (scope) => [requireApiKey(options), requireScope(scope), requestRate(options.rates, scope)],
    after: (scope) => [requireApiKeyAgain(options), requireScope(scope)],
  };
}

type KeyOptions = Pick<AccessOptions, 'keys' | 'clock' | 'readToken'>;

/**
 * Accepts requests with a valid API key and its secret, or with a token of such a key. Refuses all others with 401-01, those of a
 * disabled tenant with 403-01, and unknown keys or secrets with 503-01 while the store is
 * unavailable. Reads headers only. If the secret differs from the cached one, the key is looked up
 * again, so that a new secret works immediately.
 */
export function requireApiKey({ keys, clock, readToken }: KeyOptions): Check {
  const refuseCaller = (c: HttpContext) =>
    fail(c, '401-01', readToken && bearerToken(c) ? [INVALID_TOKEN] : []);
  const accept = (c: HttpContext, key: ApiKey, secret: ShownSecret, { limit }: ShownKey) => {
    keys.keep(key);
    if (key.revoked || hasEnded(key.expiresAtMs, clock.nowMs())) return refuseCaller(c);
    if (key.tenantDisabled) {
      return fail(c, '403-01', [{ path: 'service-api-id', message: 'the tenant of the key is disabled' }]);
    }
    const limited = limit?.(key);
    if (limited?.refusal?.code === '401-01') return refuseCaller(c);
    if (limited?.refusal) return refuse(c, limited.refusal);
    keys.used(key.apiKeyId);
    c.env?.onKeyShown?.();
    c.set('apiKey', limited?.key ?? key);
    c.set('secretIsPrevious', secret === 'previous');
    return undefined;
  };
  const lookUp = async (c: HttpContext, shown: ShownKey) => {
    try {
      const key = await keys.find(shown.apiKeyId);
      const secret = verifySecret(shown.secretSha256, key, clock.nowMs());
      return key && secret ? accept(c, key, secret, shown) : refuseCaller(c);
    } catch (error) {
      if (error instanceof AppError && error.code === KEYS_UNAVAILABLE) return fail(c, '503-01');
      throw error;
    }
  };
  return (c) => {
    const shown = readHeaders(c, readToken);
    if (!shown) return refuseCaller(c);
    const cached = keys.peek(shown.apiKeyId);
    const secret = verifySecret(shown.secretSha256, cached, clock.nowMs());
    return cached && secret ? accept(c, cached, secret, shown) : lookUp(c, shown);
  };
}

/** The detail of a 401-01 to a token, whatever is wrong with it. */
const INVALID_TOKEN = {
  path: 'authorization',
  message:
    'is no valid portal token: it has expired, was changed, or its API key has ended; create another token',
};

function readHeaders(c: HttpContext, readToken: KeyOptions['readToken']): ShownKey | undefined {
  const id = c.req.header(API_ID_HEADER);
  const secret = c.req.header(API_SECRET_HEADER);
  if (!id && !secret) return readToken?.(c);
  if (!id || !secret || !ID.test(id)) return undefined;
  return { apiKeyId: id, secretSha256: sha256Of(secret) };
}

/**
 * Repeats {@link requireApiKey} after the body was read: the key may have been revoked, or its
 * tenant disabled. An unchanged key is still the same object in the cache, so usually no secrets
 * are compared.
 */
function requireApiKeyAgain(options: KeyOptions): Check {
  const { keys, clock } = options;
  const checkAll = requireApiKey(options);
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
