import { timingSafeEqual } from 'node:crypto';
import { sha256Of } from '../../api-key-secrets.ts';
import type { Clock } from '../../clock.ts';
import { AppError } from '../../errors.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import type { HttpMiddleware } from '../env.ts';
import { fail } from '../failures.ts';
import { API_ID_HEADER, API_SECRET_HEADER } from '../key-headers.ts';
import type { KeyCache } from './key-cache.ts';
import { KEYS_UNAVAILABLE } from './key-lookup.ts';

/** What an id can look like at all; anything else is unknown without a look-up. */
const ID = /^[\x21-\x7e]{1,128}$/;
/** Compared with where there is no secret, so that every case does the same work. */
const NO_SECRET = Buffer.alloc(32);

/**
 * Lets pass who shows a valid pair of credentials: 401-01 for all else, 403-01 when the tenant is disabled, 503-01 for
 * a key or a secret that was never seen while the store cannot be asked. Looks at headers only.
 *
 * A secret that is not the cached key's is looked up too, as an unknown id is: a new secret works at once, like a new key.
 */
export function credentials(keys: KeyCache, clock: Clock): HttpMiddleware {
  return async (c, next) => {
    const id = c.req.header(API_ID_HEADER);
    const secret = c.req.header(API_SECRET_HEADER);
    if (!id || !secret || !ID.test(id)) return fail(c, '401-01');
    const given = sha256Of(secret);
    let key = keys.peek(id);
    let shown = secretShown(key, given, clock.nowMs());
    if (!shown) {
      try {
        key = await keys.find(id);
        shown = secretShown(key, given, clock.nowMs());
      } catch (error) {
        if (error instanceof AppError && error.code === KEYS_UNAVAILABLE) return fail(c, '503-01');
        throw error;
      }
    }
    if (!key || !shown) return fail(c, '401-01');
    keys.keep(key);
    if (key.revoked || isOver(key.expiresAtMs, clock.nowMs())) return fail(c, '401-01');
    if (key.tenantDisabled) {
      return fail(c, '403-01', [{ path: 'service-api-id', message: 'belongs to a tenant that is disabled' }]);
    }
    keys.used(id);
    c.env?.onKeyShown?.();
    c.set('apiKey', key);
    c.set('secretIsPrevious', shown === 'previous');
    return await next();
  };
}

/**
 * Checks the credentials again after the body was read, which may have taken a minute: the key may have been revoked, or
 * its tenant disabled, since {@link credentials} let the request pass. Answers as that does. A key that nothing was
 * changed of is the same object in the cache, so that the usual request costs no second comparison of secrets.
 */
export function credentialsAgain(keys: KeyCache, clock: Clock): HttpMiddleware {
  const checkAll = credentials(keys, clock);
  return async (c, next) => {
    const key = c.get('apiKey');
    const secretUntilMs = c.get('secretIsPrevious') ? key.previousSecret?.validUntilMs : undefined;
    const nowMs = clock.nowMs();
    const isSame =
      keys.peek(key.apiKeyId) === key && !isOver(key.expiresAtMs, nowMs) && !isOver(secretUntilMs, nowMs);
    return isSame ? await next() : await checkAll(c, next);
  };
}

/** Whether the end, if there is one, has come. */
function isOver(endMs: number | undefined, nowMs: number): boolean {
  return endMs !== undefined && endMs <= nowMs;
}

/** Compares digests, which are of one length, with all secrets of the key, in a time that tells nothing of them. */
function secretShown(
  key: ApiKey | undefined,
  given: Buffer,
  nowMs: number,
): 'current' | 'previous' | undefined {
  const { sha256, validUntilMs } = key?.previousSecret ?? { sha256: NO_SECRET, validUntilMs: 0 };
  const isCurrent = timingSafeEqual(given, key?.secretSha256 ?? NO_SECRET);
  const isPrevious = timingSafeEqual(given, sha256);
  if (!key) return undefined;
  if (isCurrent) return 'current';
  return isPrevious && nowMs < validUntilMs ? 'previous' : undefined;
}
