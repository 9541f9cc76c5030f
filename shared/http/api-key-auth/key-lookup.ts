import { sleep } from '../../async.ts';
import { AppError } from '../../errors.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';

/** AppError code (retryable) of a look-up while the store is unavailable or overloaded. */
export const KEYS_UNAVAILABLE = 'KEYS_UNAVAILABLE';

/** Maximum number of distinct ids per statement. */
const IDS_MAX = 500;
/** Maximum number of distinct ids that may wait: ten statements. */
const WAITING_IDS_MAX = 5000;
/** Maximum milliseconds that an id waits for its statement to begin. */
const WAIT_MAX_MS = 2000;
/**
 * Milliseconds between two statements, so that callers with wrong keys cannot saturate the store.
 */
const PAUSE_MS = 10;

interface Waiter {
  resolve(key: ApiKey | undefined): void;
  reject(error: unknown): void;
}

interface WaitingId {
  readonly sinceMs: number;
  readonly waiters: Waiter[];
}

/**
 * Returns a function that looks up keys and batches concurrent requests. At most one statement is
 * in flight. Ids that arrive meanwhile wait for the next statements in FIFO order. So callers with
 * invented ids use only one connection to the store, and a new valid id waits for a few statements.
 * Ids that do not exist are not cached.
 */
export function createKeyLookup(
  ask: (ids: readonly string[]) => Promise<ReadonlyMap<string, ApiKey>>,
): (id: string) => Promise<ApiKey | undefined> {
  /** The waiting ids, in the order of arrival. */
  const waiting = new Map<string, WaitingId>();
  let asking = false;

  async function askForAll(): Promise<void> {
    asking = true;
    while (waiting.size > 0) {
      const asked = takeNext();
      try {
        const found = await ask([...asked.keys()]);
        for (const [id, { waiters }] of asked) for (const waiter of waiters) waiter.resolve(found.get(id));
      } catch (error) {
        refuse(asked, error);
        // Fails all waiting ids: otherwise each statement would wait for the same failure.
        refuse(waiting, error);
      }
      await sleep(PAUSE_MS);
      refuseOverdue();
    }
    asking = false;
  }

  function takeNext(): Map<string, WaitingId> {
    const taken = new Map<string, WaitingId>();
    for (const [id, entry] of waiting) {
      if (taken.size === IDS_MAX) break;
      taken.set(id, entry);
      waiting.delete(id);
    }
    return taken;
  }

  function refuseOverdue(): void {
    const overdue = new Map<string, WaitingId>();
    for (const [id, entry] of waiting) {
      if (performance.now() - entry.sinceMs <= WAIT_MAX_MS) break;
      overdue.set(id, entry);
      waiting.delete(id);
    }
    refuse(overdue, unavailable('the look-up of API keys takes too long'));
  }

  return (id) =>
    new Promise((resolve, reject) => {
      const entry = waiting.get(id);
      if (entry) {
        entry.waiters.push({ resolve, reject });
        return;
      }
      if (waiting.size >= WAITING_IDS_MAX) {
        reject(unavailable('too many API keys wait to be looked up'));
        return;
      }
      waiting.set(id, { sinceMs: performance.now(), waiters: [{ resolve, reject }] });
      if (!asking) void askForAll();
    });
}

function refuse(ids: Map<string, WaitingId>, error: unknown): void {
  const refused = [...ids.values()];
  ids.clear();
  for (const { waiters } of refused) for (const waiter of waiters) waiter.reject(error);
}

function unavailable(message: string): AppError {
  return new AppError(KEYS_UNAVAILABLE, message, { retryable: true });
}
