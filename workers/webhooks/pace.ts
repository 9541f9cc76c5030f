/** The part of the time between two attempts at a rate that they keep if the second one is late. */
const LATE_SPACING = 0.8;

/** How fast a dispatcher sends to an endpoint that may have a rate. */
export class Pace {
  /** Attempts per second that the endpoint's owner permits; null: no limit. */
  ratePerSecond: number | null = null;
  #lastSentAtMs = -Infinity;

  /** Records that a delivery is sent. */
  send(nowMs: number): void {
    this.#lastSentAtMs = nowMs;
  }

  /** Returns when a delivery may be sent. Deliveries that are late together are not sent together. */
  sendAtMs(delivery: { readonly sendAtMs: number }): number {
    if (this.ratePerSecond === null) return delivery.sendAtMs;
    return Math.max(delivery.sendAtMs, this.#lastSentAtMs + (LATE_SPACING * 1000) / this.ratePerSecond);
  }

  /**
   * Returns the number of concurrent exchanges that the rate needs, with some to spare. What waits
   * for its time must not hold slots that others need.
   */
  exchangesMax(exchangeMs: number): number {
    if (this.ratePerSecond === null) return Number.POSITIVE_INFINITY;
    return 1 + Math.ceil((2 * this.ratePerSecond * exchangeMs) / 1000);
  }
}
