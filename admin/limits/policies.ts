import { type RatePolicy, requestPolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';

/** Maximum bytes of a request's body, as sent and after gunzip. */
export const BODY_BYTES_MAX = 64 * 1024;
/** Maximum bytes that all bodies hold together. */
export const BODY_BUFFER_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Maximum valid API keys of a tenant for which the interface creates more; the CLI has no limit.
 */
export const VALID_KEYS_MAX = 1000;
/** Default maximum API keys that a tenant's keys create in 24 hours; the CLI has no limit. */
export const KEYS_PER_DAY_MAX = 1000;

/** Default requests per second of a tenant that need one scope. */
export const ADMIN_REQUESTS_PER_SECOND = 100;

/**
 * Returns a function that returns the request limits of an API key on this listener. Per scope, its
 * tenant may make `perSecond` requests per second, or fewer if the tenant's own rate is lower. A
 * tenant with the rate `none` has no limit here either. The own rate of a key applies too.
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
  const refusal = `that need one scope are at most ${perSecond} per second${whose}`;
  return { ...requestPolicy(name, perSecond, 1), refusal };
}
