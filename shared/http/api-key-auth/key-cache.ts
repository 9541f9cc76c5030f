import { type Clock, systemClock } from '../../clock.ts';
import { AppError, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { ApiKey, ChangedKey, SeenKey } from '../../postgres/api-key-lookup.ts';
import { createRanking } from '../../ranking.ts';
import { createKeyLookup, KEYS_UNAVAILABLE } from './key-lookup.ts';

export interface KeyCacheOptions {
  /**
   * Reads the keys with these ids that exist, with its own deadline. Rejects if the store is
   * unavailable.
   */
  readonly findKeys: (ids: readonly string[]) => Promise<ApiKey[]>;
  /**
   * Reads which of the keys have changed, with its own deadline. Rejects if the store is
   * unavailable.
   */
  readonly findChanges: (seen: readonly SeenKey[]) => Promise<ChangedKey[]>;
  readonly logger: Logger;
  /**
   * Milliseconds from one refresh to the next. If the store answers within 2 s, a revocation takes
   * effect within twice this interval: 4 s. Default 2000.
   */
  readonly refreshMs?: number;
  /**
   * Maximum number of usable keys. When the cache is full, the tenant with the most keys loses its
   * least recently used one. Default 10,000. With 0, every use looks up the key.
   */
  readonly keysMax?: number;
  /** The clock by which keys expire. Default: the system clock. */
  readonly clock?: Clock;
  /** Called after each access to the store: with undefined, or with the reason of its failure. */
  readonly onStore?: (problem: string | undefined) => void;
  /** Called for each use of a key by its caller. */
  readonly onUsed?: (apiKeyId: string) => void;
}

const REFRESH_MS = 2000;
const KEYS_MAX = 10_000;
/**
 * Maximum number of cached keys that are revoked, expired, or belong to disabled tenants. Further
 * keys of this kind are looked up at each use.
 */
const REFUSED_KEYS_MAX = 500;
/** Keys per refresh statement. A larger number would block the event loop for too long. */
const REFRESH_KEYS_MAX = 2000;

/**
 * Caches the API keys of callers and refreshes them in the background. While the store is down,
 * cached keys stay valid regardless of their age. Ids that do not exist are not cached, so that a
 * new key works immediately. Only a request with the right secret caches a key or makes it the most
 * recently used one. Refused keys have a separate bound. Without these rules, anybody who knows ids
 * or has many revoked keys could evict the keys of other callers.
 */
export class KeyCache {
  private readonly options: KeyCacheOptions;
  private readonly clock: Clock;
  private readonly usable: BoundedKeys;
  private readonly refused: BoundedKeys;
  private readonly lookup: (id: string) => Promise<ApiKey | undefined>;
  private isClosed = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(options: KeyCacheOptions) {
    const { keysMax = KEYS_MAX } = options;
    this.options = options;
    this.clock = options.clock ?? systemClock;
    this.usable = new BoundedKeys(keysMax);
    this.refused = new BoundedKeys(Math.min(keysMax, REFUSED_KEYS_MAX));
    this.lookup = createKeyLookup((ids) => this.findAll(ids));
    this.scheduleRefresh(options.refreshMs ?? REFRESH_MS);
  }

  /** Returns the cached key, without waiting. */
  peek(id: string): ApiKey | undefined {
    return this.usable.get(id) ?? this.refused.get(id);
  }

  /**
   * Returns the key from the store; undefined if there is none. Does not cache the key: only {@link
   * keep} does. Rejects with AppError KEYS_UNAVAILABLE (retryable).
   */
  find(id: string): Promise<ApiKey | undefined> {
    return this.lookup(id);
  }

  /**
   * Caches a key, or makes a cached key the most recently used one of its tenant. Must be called
   * only if a caller has shown a right secret of the key.
   */
  keep(key: ApiKey): void {
    const keys = this.keysFor(key);
    (keys === this.usable ? this.refused : this.usable).delete(key.apiKeyId);
    keys.put(key);
  }

  /** Reports the use of a key by its caller. */
  used(id: string): void {
    this.options.onUsed?.(id);
  }

  /** Stops the refresh. */
  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private async findAll(ids: readonly string[]): Promise<ReadonlyMap<string, ApiKey>> {
    const found = await this.fromStore(this.options.findKeys(ids));
    for (const key of found) this.update(key);
    return new Map(found.map((key) => [key.apiKeyId, key]));
  }

  private keysFor({ revoked, tenantDisabled, expiresAtMs }: ApiKey): BoundedKeys {
    const isExpired = expiresAtMs !== undefined && expiresAtMs <= this.clock.nowMs();
    return revoked || tenantDisabled || isExpired ? this.refused : this.usable;
  }

  /** Replaces a cached key by its current state, which does not count as a use. */
  private update(key: ApiKey): void {
    if (!this.peek(key.apiKeyId)) return;
    const keys = this.keysFor(key);
    if (keys.get(key.apiKeyId)) keys.replace(key);
    else this.keep(key);
  }

  private async fromStore<T>(answer: Promise<T>): Promise<T> {
    const { onStore } = this.options;
    try {
      const value = await answer;
      onStore?.(undefined);
      return value;
    } catch (error) {
      onStore?.(errorMessage(error));
      throw new AppError(KEYS_UNAVAILABLE, 'API keys cannot be looked up', { retryable: true, cause: error });
    }
  }

  /**
   * Schedules the next refresh. The interval is from start to start, so that a slow store delays a
   * revocation by one response only.
   */
  private scheduleRefresh(afterMs: number): void {
    const { logger, refreshMs = REFRESH_MS } = this.options;
    this.timer = setTimeout(async () => {
      const startedAtMs = performance.now();
      await this.refresh().catch((error) =>
        logger.debug({ err: error }, 'API keys not refreshed, cached ones still accepted'),
      );
      const elapsedMs = performance.now() - startedAtMs;
      if (!this.isClosed) this.scheduleRefresh(Math.max(0, refreshMs - elapsedMs));
    }, afterMs);
    this.timer.unref();
  }

  private async refresh(): Promise<void> {
    const seen = [...this.usable.all(), ...this.refused.all()];
    // Keys expire without a change in the store.
    for (const key of seen) if (!this.keysFor(key).get(key.apiKeyId)) this.keep(key);
    const parts: ApiKey[][] = [];
    for (let from = 0; from < seen.length; from += REFRESH_KEYS_MAX) {
      parts.push(seen.slice(from, from + REFRESH_KEYS_MAX));
    }
    await Promise.all(parts.map((part) => this.refreshPart(part)));
  }

  private async refreshPart(seen: readonly ApiKey[]): Promise<void> {
    for (const { apiKeyId, now } of await this.fromStore(this.options.findChanges(seen))) {
      if (now) this.update(now);
      else for (const keys of [this.usable, this.refused]) keys.delete(apiKeyId);
    }
  }
}

interface TenantKeys {
  readonly tenantId: string;
  /** The cached keys, least recently used first. */
  readonly keys: Map<string, ApiKey>;
  count: number;
}

/**
 * A bounded number of API keys. When it is full, the tenant with the most keys loses its least
 * recently used one. So no tenant can evict the keys of a tenant that has fewer. The order of use
 * is tracked only while more than half is full, since that costs several microseconds per use.
 */
class BoundedKeys {
  private readonly keysMax: number;
  private readonly tenants = new Map<string, TenantKeys>();
  private readonly tenantOf = new Map<string, TenantKeys>();
  private readonly ranking = createRanking<TenantKeys>();

  constructor(keysMax: number) {
    this.keysMax = keysMax;
  }

  get(apiKeyId: string): ApiKey | undefined {
    return this.tenantOf.get(apiKeyId)?.keys.get(apiKeyId);
  }

  /** Adds the key as the most recently used one of its tenant. */
  put(key: ApiKey): void {
    const { apiKeyId, tenantId } = key;
    if (this.tenantOf.size <= this.keysMax / 2 && this.get(apiKeyId) === key) return;
    this.delete(apiKeyId);
    const tenant = this.tenants.get(tenantId) ?? { tenantId, keys: new Map(), count: 0 };
    this.tenants.set(tenantId, tenant);
    this.tenantOf.set(apiKeyId, tenant);
    tenant.keys.set(apiKeyId, key);
    this.ranking.move(tenant, tenant.count + 1);
    while (this.tenantOf.size > this.keysMax) {
      this.delete(this.ranking.first()!.keys.keys().next().value!);
    }
  }

  /** Replaces a key without changing the order of use. */
  replace(key: ApiKey): void {
    this.tenantOf.get(key.apiKeyId)?.keys.set(key.apiKeyId, key);
  }

  delete(apiKeyId: string): void {
    const tenant = this.tenantOf.get(apiKeyId);
    if (!tenant) return;
    this.tenantOf.delete(apiKeyId);
    tenant.keys.delete(apiKeyId);
    this.ranking.move(tenant, tenant.count - 1);
    if (tenant.count === 0) this.tenants.delete(tenant.tenantId);
  }

  all(): ApiKey[] {
    return [...this.tenants.values()].flatMap(({ keys }) => [...keys.values()]);
  }
}
