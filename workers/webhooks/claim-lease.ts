/** A lease at least as many times as long as its claim takes. */
const CLAIM_TIMES = 4;
const LEASE_MAX_MS = 60_000;
/** Share of the lease after which a delivery is not sent any more. */
const SEND_SHARE = 0.6;

/**
 * The lease of claimed deliveries. It begins before the claim's transaction has ended, so it is
 * longer while the database is so slow that most of it would be over by then.
 */
export class ClaimLease {
  readonly #minMs: number;
  #tookMs = 0;

  /** `minMs`: the lease while the database is fast. */
  constructor(minMs: number) {
    this.#minMs = minMs;
  }

  /** Milliseconds of the lease of the next claim. */
  get ms(): number {
    return Math.min(LEASE_MAX_MS, Math.max(this.#minMs, CLAIM_TIMES * this.#tookMs));
  }

  /** Notes how many milliseconds the last dispatch took, whose transaction may contain claims. */
  note(tookMs: number): void {
    this.#tookMs = tookMs;
  }
}

/** Returns until when a delivery may be sent that was claimed at `claimedAtMs` with this lease. */
export function sendUntilMs(claimedAtMs: number, leaseMs: number): number {
  return claimedAtMs + SEND_SHARE * leaseMs;
}
