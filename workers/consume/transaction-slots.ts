import type { Clock } from '../../shared/clock.ts';

/**
 * A semaphore for the process's transactions on the database. Waiting work gets slots in the order
 * of arrival.
 */
export interface TransactionSlots {
  /** Runs the work in one slot. `topic`: the topic whose records it stores in a round. */
  shared<T>(work: () => Promise<T>, topic?: string): Promise<T>;
  /** Runs the work in all slots, so that no other work runs. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Returns milliseconds since a slot was last released. While this is short, work waits only
   * because of load.
   */
  sinceEndMs(): number;
  /**
   * Returns the number of successful runs of work. While the number grows, the database commits
   * transactions.
   */
  successes(): number;
  /** Returns whether a round of another topic began within the last second. */
  areSharedWithOthers(topic: string): boolean;
}

const RECENT_MS = 1000;

interface Waiting {
  readonly slots: number;
  readonly begin: () => void;
}

/**
 * Creates the semaphore. `slotsMax` should be less than the pool's connections, so that other work
 * finds one.
 */
export function createTransactionSlots(slotsMax: number, clock: Clock): TransactionSlots {
  const waiting: Waiting[] = [];
  let free = slotsMax;
  let endedAtMs = clock.nowMs();
  let successes = 0;
  const roundsBegunMs = new Map<string, number>();

  function admit(): void {
    while (waiting[0] && waiting[0].slots <= free) {
      const next = waiting.shift()!;
      free -= next.slots;
      next.begin();
    }
  }

  async function run<T>(slots: number, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((begin) => {
      waiting.push({ slots, begin });
      admit();
    });
    try {
      const result = await work();
      successes += 1;
      return result;
    } finally {
      endedAtMs = clock.nowMs();
      free += slots;
      admit();
    }
  }

  return {
    shared(work, topic) {
      if (topic !== undefined) roundsBegunMs.set(topic, clock.nowMs());
      return run(1, work);
    },
    alone: (work) => run(slotsMax, work),
    sinceEndMs: () => clock.nowMs() - endedAtMs,
    successes: () => successes,
    areSharedWithOthers(topic) {
      const sinceMs = clock.nowMs() - RECENT_MS;
      return [...roundsBegunMs].some(([other, begunMs]) => other !== topic && begunMs >= sinceMs);
    },
  };
}
