import { AppError, errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { ApiKey, ChangedKey, SeenKey } from '../postgres/find-api-keys.ts';
import { createKeyLookup } from './key-lookup.ts';

/** AppError code (retryable) of {@link KeyCache.find} when the store cannot be asked. */
export const KEYS_UNAVAILABLE = 'KEYS_UNAVAILABLE';

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
  /** Keys kept at most, the least recently used goes first. Default 10,000; 0: every use reads it. */
  readonly keysMax?: number;
  /** Told after each use of the store: undefined, or why it failed. */
  readonly onStore?: (problem: string | undefined) => void;
  /** Told of each use of a key by its caller. */
  readonly onUsed?: (apiKeyId: string) => void;
}

export interface KeyCache {
  /** The key as cached, without waiting. */
  peek(id: string): ApiKey | undefined;
  /** The key from the store, then cached; undefined when there is none. Rejects with AppError KEYS_UNAVAILABLE. */
  find(id: string): Promise<ApiKey | undefined>;
  /** To be called when a caller has shown that the key is its own. */
  used(id: string): void;
  /** Ends the refreshing. */
  close(): void;
}

/** Keys in one refresh statement; more would keep the process busy for too long at a time. */
const REFRESH_KEYS_MAX = 2000;

/**
 * Keys of callers, refreshed in the background. While the store is down, what is cached stays valid however old it is:
 * callers that were known go on. Ids that do not exist are never cached, so that a new key works at once.
 */
export function createKeyCache(options: KeyCacheOptions): KeyCache {
  const { logger, refreshMs = 2000, keysMax = 10_000, onStore = () => {}, onUsed = () => {} } = options;
  const keys = new Map<string, ApiKey>();
  let closed = false;
  let timer: NodeJS.Timeout;

  const lookup = createKeyLookup(async (ids) => {
    const found = await fromStore(options.findKeys(ids));
    for (const key of found) remember(key);
    return new Map(found.map((key) => [key.apiKeyId, key]));
  });

  function remember(key: ApiKey): void {
    keys.delete(key.apiKeyId);
    keys.set(key.apiKeyId, key);
    if (keys.size > keysMax) keys.delete(keys.keys().next().value!);
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

  /** Keeps the order of use: what is set again in place does not move. */
  async function refresh(): Promise<void> {
    const seen = [...keys.values()];
    const parts: ApiKey[][] = [];
    for (let from = 0; from < seen.length; from += REFRESH_KEYS_MAX) {
      parts.push(seen.slice(from, from + REFRESH_KEYS_MAX));
    }
    await Promise.all(parts.map(refreshPart));
  }

  async function refreshPart(seen: readonly ApiKey[]): Promise<void> {
    for (const { apiKeyId, now } of await fromStore(options.findChanges(seen))) {
      if (!keys.has(apiKeyId)) continue;
      if (now) keys.set(apiKeyId, now);
      else keys.delete(apiKeyId);
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
    peek(id) {
      const key = keys.get(id);
      if (key) remember(key);
      return key;
    },
    find: lookup,
    used: onUsed,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
