/** The part of an exchange in which it is, or ended. */
type Part = 'dns' | 'connect' | 'tls' | 'answer';

/** The parts of an exchange in milliseconds. Null: the part did not take place, or did not end. */
export interface PartDurations {
  readonly dnsMs: number | null;
  readonly connectMs: number | null;
  readonly tlsMs: number | null;
  /** From the request to the first byte of the answer. */
  readonly firstByteMs: number | null;
}

/**
 * Measures the parts of one exchange. An exchange on an open connection has only the last part, from
 * the request to the first byte of the answer.
 */
export class Timing {
  private part: Part = 'dns';
  private startedAtMs = 0;
  private readonly tookMs: Partial<Record<Part, number>> = {};

  /** The part in which the exchange is, or ended. */
  get current(): Part {
    return this.part;
  }

  /** Begins a part. */
  begin(part: Part): void {
    this.part = part;
    this.startedAtMs = performance.now();
  }

  /** Ends the part that began last. Only the first end counts. */
  end(): void {
    this.tookMs[this.part] ??= performance.now() - this.startedAtMs;
  }

  durations(): PartDurations {
    const { dns = null, connect = null, tls = null, answer = null } = this.tookMs;
    return { dnsMs: dns, connectMs: connect, tlsMs: tls, firstByteMs: answer };
  }
}
