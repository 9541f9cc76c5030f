import type { Tenant } from './laboratory.ts';
import type { Receivers } from './receivers.ts';
import type { Sluice } from './sluice.ts';

const NAMES = ['acme', 'globex', 'initech'] as const;

/**
 * Makes the tenants, each with a key and an endpoint that works; the last one has another one besides that never does,
 * which must hold up nobody.
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
