import { errorMessage } from '../../shared/errors.ts';
import type { Logger } from '../../shared/logging.ts';
import { databaseRefusal, databaseTrouble } from '../../shared/postgres/refusals.ts';
import { isDatabaseUnavailable } from '../../shared/postgres/sqlstate.ts';

export interface PollerOptions {
  /** Milliseconds between two polls without a wake-up. */
  readonly intervalMs: number;
  readonly logger: Logger;
  readonly poll: () => Promise<void>;
}

/**
 * Minimum milliseconds between the starts of two polls, so that frequent wake-ups do not cause one
 * query each. Slow polls are at most a quarter of the time in progress.
 */
const GAP_MS = 5;
const GAP_OF_POLLS = 4;

/** Runs `poll` immediately, after every wake-up and every `intervalMs`; never two concurrently. */
export class Poller {
  readonly #options: PollerOptions;
  #problem: string | undefined;
  #closed = false;
  #woken = false;
  /** When the next poll may start, if there is a wake-up. */
  #nextStartMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(options: PollerOptions) {
    this.#options = options;
    this.#schedule(0);
  }

  /** Returns why the last poll failed; undefined after a success. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Polls immediately, or immediately after the poll in progress. */
  wake(): void {
    this.#woken = true;
    if (!this.#running) this.#schedule(this.#gapMs());
  }

  /** Waits for the poll in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #schedule(inMs: number): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#running ??= this.#run();
    }, inMs);
  }

  async #run(): Promise<void> {
    this.#woken = false;
    const startedAtMs = performance.now();
    try {
      await this.#options.poll();
      this.#problem = undefined;
    } catch (error) {
      this.#reportFailure(error);
      // Drops wake-ups, which would cause a tight loop while the database is down. The next poll
      // finds all due deliveries.
      this.#woken = false;
    }
    this.#running = undefined;
    const tookMs = performance.now() - startedAtMs;
    this.#nextStartMs = startedAtMs + Math.max(GAP_MS, GAP_OF_POLLS * tookMs);
    this.#schedule(this.#woken ? this.#gapMs() : this.#options.intervalMs);
  }

  #gapMs(): number {
    return Math.max(0, this.#nextStartMs - performance.now());
  }

  #reportFailure(error: unknown): void {
    const unavailable = isDatabaseUnavailable(error);
    const reason = unavailable ? databaseTrouble(error) : (databaseRefusal(error) ?? errorMessage(error));
    this.#problem = `due webhook deliveries cannot be looked up: ${reason}`;
    this.#options.logger.warn(unavailable ? { reason } : { err: error }, 'webhook poll failed, retrying');
  }
}
