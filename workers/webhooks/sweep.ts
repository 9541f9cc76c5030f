import { errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { databaseRefusal, databaseTrouble } from '../../shared/postgres/refusals.ts';
import { isDatabaseUnavailable } from '../../shared/postgres/unavailable.ts';

export interface SweepOptions {
  /** Milliseconds between two looks when nothing wakes it. */
  readonly pollMs: number;
  readonly logger: Logger;
  readonly look: () => Promise<void>;
}

export interface Sweep {
  /** Looks at once, or right after the look that runs. */
  readonly wake: () => void;
  /** Why the last look failed, in words. */
  problem(): string | undefined;
  /** Waits for the look that runs. */
  close(): Promise<void>;
}

/** Between two looks, however often it is woken: many small batches must not cost a look each. */
const GAP_MS = 20;

/** Looks for what is due: one look at a time, at every wake and every `pollMs`. */
export function createSweep({ pollMs, logger, look }: SweepOptions): Sweep {
  let problem: string | undefined;
  let closed = false;
  let woken = false;
  let startedAtMs = -Infinity;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;

  async function run(): Promise<void> {
    woken = false;
    startedAtMs = performance.now();
    try {
      await look();
      problem = undefined;
    } catch (error) {
      const unavailable = isDatabaseUnavailable(error);
      const reason = unavailable ? databaseTrouble(error) : (databaseRefusal(error) ?? errorMessage(error));
      problem = `due webhook deliveries cannot be looked up: ${reason}`;
      logger.warn(
        unavailable ? { reason } : { err: error },
        'due webhook deliveries cannot be looked up; trying again',
      );
      // Not in a loop while the database is away: the next poll finds what woke it.
      woken = false;
    }
    running = undefined;
    arm(woken ? GAP_MS : pollMs);
  }

  function arm(inMs: number): void {
    clearTimeout(timer);
    if (!closed) timer = setTimeout(start, inMs);
  }

  function start(): void {
    running ??= run();
  }

  arm(0);
  return {
    wake() {
      woken = true;
      if (!running) arm(Math.max(0, startedAtMs + GAP_MS - performance.now()));
    },
    problem: () => problem,
    async close() {
      closed = true;
      clearTimeout(timer);
      await running;
    },
  };
}
