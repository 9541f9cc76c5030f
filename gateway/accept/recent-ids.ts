import { createRanking } from '../../shared/ranking.ts';
import { createQueue, type Place, type Queue } from './queue.ts';

/** What became of a key. */
export interface Settled {
  readonly contentHash: string;
  /** Whether the log has the record for certain. */
  readonly known: boolean;
  /** When that became known, by `elapsedMs`. */
  readonly sinceMs: number;
}

export interface SettledKeys {
  recall(key: string): Settled | undefined;
  /** In place of what was remembered of the key. */
  remember(tenantId: string, key: string, settled: Settled): void;
  forget(key: string): void;
}

export interface SettledKeysOptions {
  /** Milliseconds that have passed since some moment, whatever becomes of the wall clock. */
  readonly elapsedMs: () => number;
  /** Keys of all tenants together, at most. */
  readonly keysMax: number;
  /** Milliseconds that a key is remembered. */
  readonly memoryMs: number;
}

interface Tenant {
  readonly id: string;
  readonly keys: Queue<string>;
  count: number;
}

interface Entry {
  readonly settled: Settled;
  readonly tenant: Tenant;
  readonly inTenant: Place<string>;
  readonly inAll: Place<string>;
}

/**
 * The keys that were settled last. Without room, the tenant that holds the most loses its oldest: a busy tenant pushes
 * out its own keys, and another's only once that one holds as many.
 */
export function createSettledKeys({ elapsedMs, keysMax, memoryMs }: SettledKeysOptions): SettledKeys {
  const entries = new Map<string, Entry>();
  /** Keys in the order in which they were settled, so that those of a silent tenant go too. */
  const all = createQueue<string>();
  const tenants = new Map<string, Tenant>();
  const ranking = createRanking<Tenant>();

  function recall(key: string): Settled | undefined {
    const settled = entries.get(key)?.settled;
    return settled && !isOld(settled) ? settled : undefined;
  }

  function remember(tenantId: string, key: string, settled: Settled): void {
    forget(key);
    const tenant = tenants.get(tenantId) ?? { id: tenantId, keys: createQueue(), count: 0 };
    tenants.set(tenantId, tenant);
    ranking.move(tenant, tenant.count + 1);
    entries.set(key, { settled, tenant, inTenant: tenant.keys.append(key), inAll: all.append(key) });
    forgetOld();
    while (entries.size > keysMax) forget(ranking.first()!.keys.oldest()!);
  }

  function forgetOld(): void {
    for (let key = all.oldest(); key !== undefined && !recall(key); key = all.oldest()) forget(key);
  }

  function forget(key: string): void {
    const entry = entries.get(key);
    if (!entry) return;
    const { tenant, inTenant, inAll } = entry;
    entries.delete(key);
    all.remove(inAll);
    tenant.keys.remove(inTenant);
    ranking.move(tenant, tenant.count - 1);
    if (tenant.count === 0) tenants.delete(tenant.id);
  }

  function isOld({ sinceMs }: Settled): boolean {
    return elapsedMs() - sinceMs >= memoryMs;
  }

  return { recall, remember, forget };
}
