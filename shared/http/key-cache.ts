import { AppError, errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { ApiKey } from '../postgres/find-api-keys.ts';
import { createKeyLookup } from './key-lookup.ts';

/** AppError code (retryable) of {@link KeyCache.find} when the store cannot be asked. */
export const KEYS_UNAVAILABLE = 'KEYS_UNAVAILABLE';

export interface KeyCacheOptions {
  /** Reads the keys that exist among `ids`, within a deadline of its own; rejects when the store cannot be asked. */
  readonly findKeys: (ids: readonly string[]) => Promise<ApiKey[]>;
  readonly logger: Logger;
  /** Milliseconds between two refreshes: with the query, a revocation works within 5 s. Default 2000. */
  readonly refreshMs?: number;
  /** Keys kept at most, the least recently used goes first. Default 10,000. */
  readonly keysMax?: number;
  /** Told after each use of the store: undefined, or why it failed. */
  readonly onStore?: (problem: string | undefined) => void;
}

export interface KeyCache {
  /** The key as cached, without waiting. */
  peek(id: string): ApiKey | undefined;
  /** The key from the store, then cached; undefined when there is none. Rejects with AppError KEYS_UNAVAILABLE. */
  find(id: string): Promise<ApiKey | undefined>;
  /** Ends the refreshing. */
  close(): void;
}

/** Ids in one refresh statement. */
const REFRESH_IDS_MAX = 1000;

/**
 * Keys of callers, refreshed in the background. While the store is down, what is cached stays valid however old it is:
 * callers that were known go on. Ids that do not exist are never cached, so that a new key works at once.
 */
export function createKeyCache(options: KeyCacheOptions): KeyCache {
  const { logger, refreshMs = 2000, keysMax = 10_000, onStore = () => {} } = options;
  const keys = new Map<string, ApiKey>();
  let closed = false;
  let timer: NodeJS.Timeout;

  const lookup = createKeyLookup(async (ids) => {
    const found = await askStore(ids);
    for (const key of found.values()) remember(key);
    return found;
  });

  function remember(key: ApiKey): void {
    keys.delete(key.apiKeyId);
    keys.set(key.apiKeyId, key);
    if (keys.size > keysMax) keys.delete(keys.keys().next().value!);
  }

  async function askStore(ids: readonly string[]): Promise<Map<string, ApiKey>> {
    try {
      const found = await options.findKeys(ids);
      onStore(undefined);
      return new Map(found.map((key) => [key.apiKeyId, key]));
    } catch (error) {
      onStore(errorMessage(error));
      throw new AppError(KEYS_UNAVAILABLE, 'API keys cannot be looked up', { retryable: true, cause: error });
    }
  }

  /** Keeps the order of use: what is set again in place does not move. */
  async function refresh(): Promise<void> {
    const ids = [...keys.keys()];
    for (let from = 0; from < ids.length && !closed; from += REFRESH_IDS_MAX) {
      const some = ids.slice(from, from + REFRESH_IDS_MAX);
      const found = await askStore(some);
      for (const id of some) {
        if (!keys.has(id)) continue;
        const key = found.get(id);
        if (key) keys.set(id, key);
        else keys.delete(id);
      }
    }
  }

  function scheduleRefresh(): void {
    timer = setTimeout(() => {
      refresh()
        .catch((error) => logger.debug({ err: error }, 'keys were not refreshed; the cached ones go on'))
        .finally(() => {
          if (!closed) scheduleRefresh();
        });
    }, refreshMs);
    timer.unref();
  }
  scheduleRefresh();

  return {
    peek(id) {
      const key = keys.get(id);
      if (key) remember(key);
      return key;
    },
    find: lookup,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
