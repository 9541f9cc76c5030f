import { type RatePolicy, requestPolicy } from '../../shared/http/rates/policy.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';

/** Requests per second of a tenant that need one scope, unless the setting says otherwise. */
export const ADMIN_REQUESTS_PER_SECOND = 100;

/**
 * Returns what limits the requests of a key on this listener: its tenant may make `perSecond`, or fewer where the tenant's
 * own rate is lower, for each scope. A tenant whose rate is `none` has no limit here either; a key's own rate holds too.
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
