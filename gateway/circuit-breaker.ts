export type BreakerState = 'closed' | 'open' | 'half-open';

export interface CircuitBreakerOptions {
  /**
   * Number of failures that opens the breaker, without a success since the first of these failures
   * began.
   */
  readonly failuresMax: number;
  /** Milliseconds that the breaker stays open the first time. */
  readonly openMs: number;
  /**
   * Maximum milliseconds that the breaker stays open: each failed trial doubles the time. Default:
   * `openMs`.
   */
  readonly openMsMax?: number;
  /** Milliseconds between two trials while the breaker is half-open. Default 1000. */
  readonly trialIntervalMs?: number;
  /** Called when the breaker opens, but not when a failed trial reopens the breaker. */
  readonly onOpened?: () => void;
  /** Called when a success closes the breaker. */
  readonly onClosed?: () => void;
  /** Monotonic milliseconds. Default: `performance.now`. */
  readonly elapsedMs?: () => number;
}

/**
 * A call that the breaker let through. Call one of the methods, or neither if the result is
 * inconclusive.
 */
export interface Attempt {
  succeeded(): void;
  failed(): void;
}

/**
 * A circuit breaker for calls to one or more targets. Closed: lets all calls through. Open: refuses
 * calls, except one trial for each target that has not failed since the last success. So if only
 * one of many targets is down, a call to another target closes the breaker. Half-open, after
 * `openMs`: also lets one trial per interval through.
 */
export class CircuitBreaker {
  private isClosed = true;
  private allFail = false;
  private failures = 0;
  private openMs: number;
  private openUntilMs = 0;
  private nextTrialAtMs = 0;
  /** Targets of failed or admitted calls since the last success. */
  private readonly tried = new Set<string>();
  /**
   * Increases with each success and each opening. A failure counts only if its call began in the
   * current period.
   */
  private period = 0;
  private readonly options: CircuitBreakerOptions;
  private readonly elapsedMs: () => number;

  constructor(options: CircuitBreakerOptions) {
    this.options = options;
    this.openMs = options.openMs;
    this.elapsedMs = options.elapsedMs ?? (() => performance.now());
  }

  get state(): BreakerState {
    if (this.isClosed) return 'closed';
    return this.elapsedMs() < this.openUntilMs ? 'open' : 'half-open';
  }

  /**
   * Begins a call. Returns undefined if the call must be refused. `targetsOf` returns the targets
   * of the call.
   */
  begin(targetsOf: () => readonly string[] = () => []): Attempt | undefined {
    if (!this.isClosed && !this.admits(targetsOf())) return undefined;
    const { period } = this;
    return {
      succeeded: () => this.close(),
      failed: () => {
        if (period === this.period) this.onFailure(targetsOf());
      },
    };
  }

  /** Opens the breaker if it is closed. Call this when all targets are known to fail. */
  trip(): void {
    if (!this.isClosed) return;
    this.allFail = true;
    this.open();
  }

  /** Closes the breaker and forgets all failures. */
  close(): void {
    const wasClosed = this.isClosed;
    this.isClosed = true;
    this.allFail = false;
    this.failures = 0;
    this.openMs = this.options.openMs;
    this.nextTrialAtMs = 0;
    this.tried.clear();
    this.period += 1;
    if (!wasClosed) this.options.onClosed?.();
  }

  private admits(targets: readonly string[]): boolean {
    const nowMs = this.elapsedMs();
    const isTrial = this.state === 'half-open' && nowMs >= this.nextTrialAtMs;
    if (!isTrial && (this.allFail || targets.every((target) => this.tried.has(target)))) return false;
    if (isTrial) this.nextTrialAtMs = nowMs + (this.options.trialIntervalMs ?? 1000);
    for (const target of targets) this.tried.add(target);
    return true;
  }

  private onFailure(targets: readonly string[]): void {
    for (const target of targets) this.tried.add(target);
    this.failures += 1;
    if (this.state === 'open' || (this.isClosed && this.failures < this.options.failuresMax)) return;
    this.open();
  }

  private open(): void {
    const wasClosed = this.isClosed;
    this.isClosed = false;
    this.openUntilMs = this.elapsedMs() + this.openMs;
    this.openMs = Math.min(this.openMs * 2, this.options.openMsMax ?? this.options.openMs);
    this.period += 1;
    if (wasClosed) this.options.onOpened?.();
  }
}
