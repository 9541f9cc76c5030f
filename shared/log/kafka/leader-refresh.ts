import { backoffMs } from '../../async.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { ProduceTransport } from './transport.ts';

const BACKOFF = { minMs: 20, maxMs: 1_000 };

/**
 * Requests the leaders of partitions from the cluster: one request at a time, with backoff while
 * some leader is unknown.
 */
export class LeaderRefresh {
  private readonly transport: Pick<ProduceTransport, 'refresh'>;
  private readonly logger: Logger;
  private running = false;
  private problem: string | undefined;
  /** Consecutive requests after which some leader was still unknown. */
  private attempts = 0;
  private notBeforeMs = 0;

  constructor(transport: Pick<ProduceTransport, 'refresh'>, logger: Logger) {
    this.transport = transport;
    this.logger = logger;
  }

  /** Resets the backoff: all leaders are known. */
  reset(): void {
    this.attempts = 0;
  }

  /** Returns whether a request may be sent now; false while one is in flight. */
  isDue(nowMs: number): boolean {
    return !this.running && this.notBeforeMs <= nowMs;
  }

  /**
   * Returns when the next request is due, by `performance.now()`; infinite while one is in flight.
   */
  dueAtMs(): number {
    return this.running ? Number.POSITIVE_INFINITY : this.notBeforeMs;
  }

  /** Sends one request; never rejects. `isQuiet` returns true to suppress the log message. */
  async run(topics: readonly string[], isQuiet: () => boolean): Promise<void> {
    this.running = true;
    let reason: string | undefined;
    try {
      await this.transport.refresh(topics);
    } catch (error) {
      reason = errorMessage(error);
    }
    // Logged once per reason, because requests are retried every second.
    if (reason !== undefined && reason !== this.problem && !isQuiet()) {
      this.logger.warn({ reason }, 'partition leaders unknown, retrying');
    }
    this.problem = reason;
    this.running = false;
    this.attempts += 1;
    this.notBeforeMs = performance.now() + backoffMs(this.attempts, BACKOFF);
  }
}
