import { AppError } from '../errors.ts';
import type { ApiKey } from '../postgres/find-api-keys.ts';
import { KEYS_UNAVAILABLE } from './key-cache.ts';

/** Different ids that may wait at once; callers with made-up ids must not fill the memory. */
const WAITING_IDS_MAX = 10_000;

interface Waiter {
  resolve(key: ApiKey | undefined): void;
  reject(error: unknown): void;
}

/**
 * Gathers look-ups of concurrent requests: one query in flight, and all ids that were asked for meanwhile go into the
 * next one. So many callers with unknown ids cost the store one connection.
 */
export function createKeyLookup(
  ask: (ids: readonly string[]) => Promise<ReadonlyMap<string, ApiKey>>,
): (id: string) => Promise<ApiKey | undefined> {
  let waiting = new Map<string, Waiter[]>();
  let asking = false;

  async function askForAll(): Promise<void> {
    asking = true;
    while (waiting.size > 0) {
      const asked = waiting;
      waiting = new Map();
      try {
        const found = await ask([...asked.keys()]);
        for (const [id, waiters] of asked) for (const waiter of waiters) waiter.resolve(found.get(id));
      } catch (error) {
        for (const waiters of asked.values()) for (const waiter of waiters) waiter.reject(error);
      }
    }
    asking = false;
  }

  return (id) =>
    new Promise((resolve, reject) => {
      const waiters = waiting.get(id);
      if (waiters) {
        waiters.push({ resolve, reject });
        return;
      }
      if (waiting.size >= WAITING_IDS_MAX) {
        reject(new AppError(KEYS_UNAVAILABLE, 'too many API keys wait to be looked up', { retryable: true }));
        return;
      }
      waiting.set(id, [{ resolve, reject }]);
      if (!asking) void askForAll();
    });
}
