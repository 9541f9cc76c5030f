/**
 * Milliseconds for which a dispatch delays the next one. One that takes longer, for example because
 * it waits for a lock, must not delay others.
 */
const ALONE_MS = 30;
/** Claimed deliveries from which on dispatches are delayed. With fewer, latency matters more. */
const BUSY = 64;

/**
 * Delays a dispatch while another one is in progress, so that it gathers what arrives meanwhile. One
 * dispatch of many endpoints costs less than several of few.
 */
export class Gathering {
  readonly #onEnd: () => void;
  #lastStartMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  /** `onEnd` is called when a delay has ended. */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  /** Records the start of a dispatch. */
  start(): void {
    this.#lastStartMs = performance.now();
  }

  /** Returns whether to delay the next dispatch. */
  delays({ dispatches, held }: { readonly dispatches: number; readonly held: number }): boolean {
    if (dispatches === 0 || held < BUSY) return false;
    const waitMs = this.#lastStartMs + ALONE_MS - performance.now();
    if (waitMs <= 0) return false;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#onEnd();
    }, waitMs);
    return true;
  }
}
