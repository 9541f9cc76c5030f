import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { AppError } from '../errors.ts';
import type { HttpMiddleware } from './env.ts';
import { fail } from './failures.ts';
import { KEYS_UNAVAILABLE, type KeyCache } from './key-cache.ts';

export const API_ID_HEADER = 'service-api-id';
export const API_SECRET_HEADER = 'service-api-secret';

/** What an id can look like at all; anything else is unknown without a look-up. */
const ID = /^[\x21-\x7e]{1,128}$/;
/** Compared with when the id is unknown, so that both cases do the same work. */
const NO_SECRET = Buffer.alloc(32);

/**
 * Lets pass who shows a valid pair of credentials: 401-01 for all else, 403-01 when the tenant is disabled, 503-01 for
 * a key that was never seen while the store cannot be asked. Looks at headers only.
 */
export function credentials(keys: KeyCache, clock: Clock): HttpMiddleware {
  return async (c, next) => {
    const id = c.req.header(API_ID_HEADER);
    const secret = c.req.header(API_SECRET_HEADER);
    if (!id || !secret || !ID.test(id)) return fail(c, '401-01');
    let key = keys.peek(id);
    if (!key) {
      try {
        key = await keys.find(id);
      } catch (error) {
        if (error instanceof AppError && error.code === KEYS_UNAVAILABLE) return fail(c, '503-01');
        throw error;
      }
    }
    const given = createHash('sha256').update(secret).digest();
    const matches = timingSafeEqual(given, key?.secretSha256 ?? NO_SECRET);
    if (!key || !matches || key.revoked) return fail(c, '401-01');
    if (key.expiresAtMs !== undefined && key.expiresAtMs <= clock.nowMs()) return fail(c, '401-01');
    if (key.tenantDisabled) {
      return fail(c, '403-01', [{ path: 'service-api-id', message: 'belongs to a tenant that is disabled' }]);
    }
    c.set('apiKey', key);
    return await next();
  };
}
