import { createRanking } from '../../shared/ranking.ts';

/** The result of the last publish with an id. */
export interface RecentId {
  readonly contentHash: string;
  /** Whether the log certainly has the record. */
  readonly isCertain: boolean;
  /** The time of the result, by `elapsedMs`. */
  readonly sinceMs: number;
}

export interface RecentIdsOptions {
  /** Milliseconds since an arbitrary moment; unaffected by changes of the wall clock. */
  readonly elapsedMs: () => number;
  /** Maximum number of ids of all tenants together. */
  readonly idsMax: number;
  /** Milliseconds after which an id is evicted. */
  readonly memoryMs: number;
}

interface Tenant {
  readonly id: string;
  readonly queue: LinkedQueue<string>;
  count: number;
}

interface Entry {
  readonly recent: RecentId;
  readonly tenant: Tenant;
  readonly inTenant: Node<string>;
  readonly inAll: Node<string>;
}

/**
 * A cache of the most recently published ids. When the cache is full, the tenant with the most ids
 * evicts its oldest id. So a busy tenant evicts its own ids before the ids of other tenants.
 */
export class RecentIds {
  private readonly options: RecentIdsOptions;
  private readonly entries = new Map<string, Entry>();
  /** Full ids of all tenants, oldest first, so that the ids of an idle tenant expire too. */
  private readonly all = new LinkedQueue<string>();
  private readonly tenants = new Map<string, Tenant>();
  private readonly ranking = createRanking<Tenant>();

  constructor(options: RecentIdsOptions) {
    this.options = options;
  }

  get(fullId: string): RecentId | undefined {
    const recent = this.entries.get(fullId)?.recent;
    if (!recent) return undefined;
    return this.options.elapsedMs() - recent.sinceMs < this.options.memoryMs ? recent : undefined;
  }

  /** Stores the result for the id and replaces any earlier result. */
  set(tenantId: string, fullId: string, recent: RecentId): void {
    this.delete(fullId);
    const tenant = this.tenants.get(tenantId) ?? { id: tenantId, queue: new LinkedQueue(), count: 0 };
    this.tenants.set(tenantId, tenant);
    this.ranking.move(tenant, tenant.count + 1);
    const inTenant = tenant.queue.append(fullId);
    this.entries.set(fullId, { recent, tenant, inTenant, inAll: this.all.append(fullId) });
    this.evict();
  }

  delete(fullId: string): void {
    const entry = this.entries.get(fullId);
    if (!entry) return;
    const { tenant, inTenant, inAll } = entry;
    this.entries.delete(fullId);
    this.all.remove(inAll);
    tenant.queue.remove(inTenant);
    this.ranking.move(tenant, tenant.count - 1);
    if (tenant.count === 0) this.tenants.delete(tenant.id);
  }

  private evict(): void {
    let oldest = this.all.oldest();
    while (oldest !== undefined && !this.get(oldest)) {
      this.delete(oldest);
      oldest = this.all.oldest();
    }
    while (this.entries.size > this.options.idsMax) {
      this.delete(this.ranking.first()!.queue.oldest()!);
    }
  }
}

interface Node<T> {
  readonly value: T;
  older: Node<T> | undefined;
  newer: Node<T> | undefined;
}

/**
 * A doubly linked queue. A `Map` keeps its order too, but finding its first entry skips all deleted
 * entries. With 200,000 entries, a full `Map` was several times slower.
 */
class LinkedQueue<T> {
  private first: Node<T> | undefined;
  private last: Node<T> | undefined;

  oldest(): T | undefined {
    return this.first?.value;
  }

  append(value: T): Node<T> {
    const node: Node<T> = { value, older: this.last, newer: undefined };
    if (this.last) this.last.newer = node;
    else this.first = node;
    this.last = node;
    return node;
  }

  /** Removes a node. Call this once per node. */
  remove({ older, newer }: Node<T>): void {
    if (older) older.newer = newer;
    else this.first = newer;
    if (newer) newer.older = older;
    else this.last = older;
  }
}
