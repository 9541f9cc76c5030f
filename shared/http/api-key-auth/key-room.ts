import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import { createRanking } from '../../ranking.ts';

/**
 * A bounded number of API keys. When it is full, the tenant with the most keys loses its least recently used one: no
 * tenant can evict the keys of one that has fewer.
 */
export interface KeyRoom {
  get(apiKeyId: string): ApiKey | undefined;
  /** Takes the key in as the most recently used one of its tenant. */
  put(key: ApiKey): void;
  /** Replaces a key that is in the room; its place stays. */
  replace(key: ApiKey): void;
  delete(apiKeyId: string): void;
  all(): ApiKey[];
}

interface Tenant {
  readonly id: string;
  /** Least recently used first. */
  readonly keys: Map<string, ApiKey>;
  count: number;
}

export function createKeyRoom(keysMax: number): KeyRoom {
  const tenants = new Map<string, Tenant>();
  const tenantOf = new Map<string, Tenant>();
  const ranking = createRanking<Tenant>();

  function remove(apiKeyId: string): void {
    const tenant = tenantOf.get(apiKeyId);
    if (!tenant) return;
    tenantOf.delete(apiKeyId);
    tenant.keys.delete(apiKeyId);
    ranking.move(tenant, tenant.count - 1);
    if (tenant.count === 0) tenants.delete(tenant.id);
  }

  return {
    get: (apiKeyId) => tenantOf.get(apiKeyId)?.keys.get(apiKeyId),
    put(key) {
      const { apiKeyId, tenantId } = key;
      remove(apiKeyId);
      const tenant = tenants.get(tenantId) ?? { id: tenantId, keys: new Map(), count: 0 };
      tenants.set(tenantId, tenant);
      tenantOf.set(apiKeyId, tenant);
      tenant.keys.set(apiKeyId, key);
      ranking.move(tenant, tenant.count + 1);
      while (tenantOf.size > keysMax) remove(ranking.first()!.keys.keys().next().value!);
    },
    replace(key) {
      tenantOf.get(key.apiKeyId)?.keys.set(key.apiKeyId, key);
    },
    delete: remove,
    all: () => [...tenants.values()].flatMap(({ keys }) => [...keys.values()]),
  };
}
