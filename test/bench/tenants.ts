import type { LoadedProduct, TenantKey } from './loaded-product.ts';

const TENANTS = 20;
/** Rates that no case reaches, so that every check of a rate runs and none refuses. */
const RATES = ['--rate', '1000000', '--bytes', '2000000000'];
/** Commands that run concurrently, about as many as the machine has cores. */
const WIDTH = 3;

/** Creates tenants with raised rates and one key with every scope each, as operators do. */
export async function createTenants(product: LoadedProduct, count = TENANTS): Promise<TenantKey[]> {
  const keys: TenantKey[] = [];
  const create = async (first: number) => {
    for (let i = first; i < count; i += WIDTH) keys[i] = await createTenant(product, `tenant-${i}`);
  };
  await Promise.all(Array.from({ length: WIDTH }, (_, first) => create(first)));
  return keys;
}

async function createTenant({ sluice }: LoadedProduct, name: string): Promise<TenantKey> {
  const { tenantId } = (await sluice('tenants', 'create', name, ...RATES)) as { tenantId: string };
  const key = (await sluice('keys', 'create', '--tenant', name, '--scope', '*')) as {
    apiKeyId: string;
    apiKeySecret: string;
  };
  return { tenantId, name, apiKeyId: key.apiKeyId, secret: key.apiKeySecret };
}
