import type { Clock } from '../../shared/clock.ts';

/** Who may work on the database at the same time. First come, first served. */
export interface Turns {
  /** Runs the work beside others, as many as the turns allow. */
  shared<T>(work: () => Promise<T>): Promise<T>;
  /** Runs the work while nothing else has a turn. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Milliseconds since a turn ended last: while that is little, whoever waits does so because there is much to do. */
  sinceEndMs(): number;
  /** Turns whose work succeeded: while it grows, the database commits for somebody. */
  successes(): number;
}

interface Waiting {
  readonly needs: number;
  readonly begin: () => void;
}

/**
 * Turns for `sharedMax` transactions at once. Fewer than the pool has connections, so that other work finds one.
 */
export function createTurns(sharedMax: number, clock: Clock): Turns {
  const waiting: Waiting[] = [];
  let free = sharedMax;
  let endedAtMs = clock.nowMs();
  let successes = 0;

  function admit(): void {
    while (waiting[0] && waiting[0].needs <= free) {
      const next = waiting.shift()!;
      free -= next.needs;
      next.begin();
    }
  }

  async function run<T>(needs: number, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((begin) => {
      waiting.push({ needs, begin });
      admit();
    });
    try {
      const result = await work();
      successes += 1;
      return result;
    } finally {
      endedAtMs = clock.nowMs();
      free += needs;
      admit();
    }
  }

  return {
    shared: (work) => run(1, work),
    alone: (work) => run(sharedMax, work),
    sinceEndMs: () => clock.nowMs() - endedAtMs,
    successes: () => successes,
  };
}
