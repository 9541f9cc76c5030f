import type { Tenant } from './laboratory.ts';
import type { Receivers } from './receivers.ts';
import type { Sluice } from './sluice.ts';

const NAMES = ['acme', 'globex', 'initech'] as const;

/**
 * Creates the tenants, each with an API key and a working webhook endpoint. The last tenant also
 * has an endpoint that always fails, which must not delay other deliveries.
 */
export async function createTenants(
  sluice: Sluice,
  startReceivers: (names: readonly string[]) => Promise<Receivers>,
): Promise<{ tenants: readonly Tenant[]; receivers: Receivers }> {
  const receivers = await startReceivers(NAMES);
  const tenants: Tenant[] = [];
  for (const name of NAMES) {
    await sluice('tenants', 'create', name, '--rate', 'none');
    const key = JSON.parse(await sluice('keys', 'create', '--tenant', name, '--scope', '*', '--json'));
    await sluice('webhooks', 'create', '--tenant', name, '--url', receivers.urlOf(name));
    tenants.push({ ...key, name });
  }
  await sluice('webhooks', 'create', '--tenant', NAMES.at(-1)!, '--url', receivers.brokenUrl);
  return { tenants, receivers };
}
