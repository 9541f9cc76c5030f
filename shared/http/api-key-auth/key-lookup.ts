import { sleep } from '../../async.ts';
import { AppError } from '../../errors.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';

/** AppError code (retryable) of {@link KeyCache.find} when the store cannot be asked. */
export const KEYS_UNAVAILABLE = 'KEYS_UNAVAILABLE';

/** Different ids in one statement. */
const IDS_MAX = 500;
/** Different ids that may wait at once: what is in front of an id is asked in ten statements. */
const WAITING_IDS_MAX = 5000;
/** Milliseconds until its statement begins that an id waits at most, however slow the store is. */
const WAIT_MAX_MS = 2000;
/** Milliseconds between two statements, so that callers with wrong credentials cannot keep the store busy. */
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
 * Gathers look-ups of concurrent requests: one query in flight, and ids that are asked for meanwhile go into the next
 * ones, first come first served. So callers with made-up ids cost the store one connection, and a real new id among them
 * waits for a few statements. Nothing is remembered of ids that do not exist.
 */
export function createKeyLookup(
  ask: (ids: readonly string[]) => Promise<ReadonlyMap<string, ApiKey>>,
): (id: string) => Promise<ApiKey | undefined> {
  /** In the order of arrival. */
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
        // They would only wait for the same failure, one statement after the other.
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
