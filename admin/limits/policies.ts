import { type RatePolicy, requestPolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';

/** Maximum bytes of a request's body, as sent and after gunzip. */
export const BODY_BYTES_MAX = 64 * 1024;
/** Maximum bytes of all request bodies that are held concurrently. */
export const BODY_BUFFER_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Maximum valid API keys of a tenant: with more, the admin API creates no key. The CLI has no
 * limit.
 */
export const VALID_KEYS_MAX = 1000;
/**
 * Default maximum of API keys that a tenant's keys may create in 24 hours. The CLI has no limit.
 */
export const KEYS_PER_DAY_MAX = 1000;

/** Default maximum requests per second of a tenant for one scope. */
export const ADMIN_REQUESTS_PER_SECOND = 100;

/**
 * Returns a function that returns the request limits of an API key on this listener. Per scope, the
 * key's tenant may make `perSecond` requests per second, or fewer if the tenant's own rate is
 * lower. A tenant with the rate `none` has no limit on this listener. The key's own rate applies
 * too.
 */
export function createAdminPolicies(perSecond: number) {
  return ({ limits: { tenantRate, keyRate } }: ApiKey): { readonly requests: readonly RatePolicy[] } => {
    const requests: RatePolicy[] = [];
    if (tenantRate !== 'none') {
      const ofTenant = tenantRate === 'default' ? perSecond : Math.min(perSecond, tenantRate);
      requests.push(adminPolicy('requests', ofTenant));
    }
    if (keyRate !== undefined) requests.push(adminPolicy('key-requests', keyRate));
    return { requests };
  };
}

function adminPolicy(name: 'requests' | 'key-requests', perSecond: number): RatePolicy {
  const whose = name === 'requests' ? '' : ' with this key';
  const refusal = `requests that need one scope are limited to ${perSecond} per second${whose}`;
  return { ...requestPolicy(name, perSecond, 1), refusal };
}
