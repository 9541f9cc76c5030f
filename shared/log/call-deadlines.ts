/** A call that ends at a deadline. */
interface Call {
  /** By `performance.now()`, so that a change of the wall clock does not move it. */
  readonly deadlineAtMs: number;
}

/**
 * The open calls of a publisher, which all have the same timeout, so that the oldest call is due
 * first and one timer is enough.
 */
export class CallDeadlines<C extends Call> {
  private readonly onDue: (due: readonly C[]) => void;
  /** The open calls, oldest first. */
  private readonly calls = new Set<C>();
  private timer: NodeJS.Timeout | undefined;

  /** `onDue` gets the calls whose deadline has passed; it must end them. */
  constructor(onDue: (due: readonly C[]) => void) {
    this.onDue = onDue;
  }

  get size(): number {
    return this.calls.size;
  }

  add(call: C): void {
    this.calls.add(call);
    this.arm();
  }

  /** Removes a call that has ended. */
  delete(call: C): void {
    this.calls.delete(call);
    if (this.calls.size > 0) return;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private arm(): void {
    if (this.timer !== undefined) return;
    const [oldest] = this.calls;
    if (oldest === undefined) return;
    this.timer = setTimeout(() => this.expire(), Math.max(0, oldest.deadlineAtMs - performance.now()));
  }

  private expire(): void {
    this.timer = undefined;
    const nowMs = performance.now();
    const due: C[] = [];
    for (const call of this.calls) {
      if (call.deadlineAtMs > nowMs) break;
      due.push(call);
    }
    if (due.length > 0) this.onDue(due);
    this.arm();
  }
}
