import { type Clock, systemClock } from '../../clock.ts';
import { AppError, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { ApiKey, ChangedKey, SeenKey } from '../../postgres/api-key-lookup.ts';
import { createKeyLookup, KEYS_UNAVAILABLE } from './key-lookup.ts';
import { createKeyRoom } from './key-room.ts';

export interface KeyCacheOptions {
  /** Reads the keys that exist among `ids`, within a deadline of its own; rejects when the store cannot be asked. */
  readonly findKeys: (ids: readonly string[]) => Promise<ApiKey[]>;
  /** Reads which of the keys are not as they were; as `findKeys`. */
  readonly findChanges: (seen: readonly SeenKey[]) => Promise<ChangedKey[]>;
  readonly logger: Logger;
  /**
   * Milliseconds from one refresh to the next. As long as the store answers within 2 s, a revocation works within twice
   * this, one answer later: 4 s. Default 2000.
   */
  readonly refreshMs?: number;
  /**
   * Usable keys kept at most. When they are full, the tenant with the most loses its least recently used one. Default
   * 10,000; 0: every use reads the key.
   */
  readonly keysMax?: number;
  /** Decides which keys have expired. Default: the system clock. */
  readonly clock?: Clock;
  /** Told after each use of the store: undefined, or why it failed. */
  readonly onStore?: (problem: string | undefined) => void;
  /** Told of each use of a key by its caller. */
  readonly onUsed?: (apiKeyId: string) => void;
}

export interface KeyCache {
  /** The key as cached, without waiting. */
  peek(id: string): ApiKey | undefined;
  /**
   * The key from the store; undefined when there is none. It is not cached by this: only {@link keep} does that. Rejects
   * with AppError KEYS_UNAVAILABLE.
   */
  find(id: string): Promise<ApiKey | undefined>;
  /** Caches a key, or renews its place. To be called when a caller has shown a right secret of the key, and only then. */
  keep(key: ApiKey): void;
  /** To be called when a caller has shown that the key is its own. */
  used(id: string): void;
  /** Ends the refreshing. */
  close(): void;
}

/** Revoked and expired keys, and those of disabled tenants, kept at most: without them their callers are looked up each time. */
const REFUSED_KEYS_MAX = 500;
/** Keys in one refresh statement; more would keep the process busy for too long at a time. */
const REFRESH_KEYS_MAX = 2000;

/**
 * Keys of callers, refreshed in the background. While the store is down, what is cached stays valid however old it is:
 * callers that were known go on. Ids that do not exist are never cached, so that a new key works at once.
 *
 * A key gets or renews its place only by a right secret, and keys that are refused have a room of their own. Otherwise
 * anybody who knows ids, or has many keys that ended, could evict the keys of others.
 */
export function createKeyCache(options: KeyCacheOptions): KeyCache {
  const { logger, refreshMs = 2000, keysMax = 10_000, clock = systemClock } = options;
  const { onStore = () => {}, onUsed = () => {} } = options;
  const usable = createKeyRoom(keysMax);
  const refused = createKeyRoom(Math.min(keysMax, REFUSED_KEYS_MAX));
  let closed = false;
  let timer: NodeJS.Timeout;

  const lookup = createKeyLookup(async (ids) => {
    const found = await fromStore(options.findKeys(ids));
    for (const key of found) update(key);
    return new Map(found.map((key) => [key.apiKeyId, key]));
  });

  const cached = (id: string) => usable.get(id) ?? refused.get(id);
  const roomOf = (key: ApiKey) => (isRefused(key, clock.nowMs()) ? refused : usable);

  function keep(key: ApiKey): void {
    const room = roomOf(key);
    (room === usable ? refused : usable).delete(key.apiKeyId);
    room.put(key);
  }

  /** Replaces a cached key by what it is now. It changes its place only where it changes its room. */
  function update(now: ApiKey): void {
    if (!cached(now.apiKeyId)) return;
    const room = roomOf(now);
    if (room.get(now.apiKeyId)) room.replace(now);
    else keep(now);
  }

  async function fromStore<T>(answer: Promise<T>): Promise<T> {
    try {
      const value = await answer;
      onStore(undefined);
      return value;
    } catch (error) {
      onStore(errorMessage(error));
      throw new AppError(KEYS_UNAVAILABLE, 'API keys cannot be looked up', { retryable: true, cause: error });
    }
  }

  async function refresh(): Promise<void> {
    const seen = [...usable.all(), ...refused.all()];
    // Keys expire without a change in the store.
    for (const key of seen) if (!roomOf(key).get(key.apiKeyId)) keep(key);
    const parts: ApiKey[][] = [];
    for (let from = 0; from < seen.length; from += REFRESH_KEYS_MAX) {
      parts.push(seen.slice(from, from + REFRESH_KEYS_MAX));
    }
    await Promise.all(parts.map(refreshPart));
  }

  async function refreshPart(seen: readonly ApiKey[]): Promise<void> {
    for (const { apiKeyId, now } of await fromStore(options.findChanges(seen))) {
      if (now) update(now);
      else for (const room of [usable, refused]) room.delete(apiKeyId);
    }
  }

  /** From start to start: a slow store delays no revocation by more than its answer takes. */
  function scheduleRefresh(afterMs: number): void {
    timer = setTimeout(async () => {
      const startedAtMs = performance.now();
      await refresh().catch((error) =>
        logger.debug({ err: error }, 'keys were not refreshed; the cached ones go on'),
      );
      if (!closed) scheduleRefresh(Math.max(0, refreshMs - (performance.now() - startedAtMs)));
    }, afterMs);
    timer.unref();
  }
  scheduleRefresh(refreshMs);

  return {
    peek: cached,
    find: lookup,
    keep,
    used: onUsed,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

function isRefused({ revoked, tenantDisabled, expiresAtMs }: ApiKey, nowMs: number): boolean {
  return revoked || tenantDisabled || (expiresAtMs !== undefined && expiresAtMs <= nowMs);
}
