import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { Attempt } from './attempt.ts';
import type { SlotUser } from './slots.ts';

/** An attempt whose result is not stored yet, and the function that then frees its slot. */
export interface UnrecordedAttempt {
  readonly attempt: Attempt;
  readonly release: () => void;
}

/** The in-memory state of an endpoint in this dispatcher. */
export class EndpointQueue implements SlotUser {
  readonly id: EndpointId;
  readonly tenantId: string;
  /** Exchanges that are in flight or unrecorded; each holds a slot. */
  held = 0;
  unrecorded: UnrecordedAttempt[] = [];
  /** Whether the last attempt failed, as of the last dispatch. */
  failing: boolean;
  /** Maximum number of concurrent exchanges of the endpoint, as of the last dispatch. */
  concurrency: number;
  /** Whether the endpoint waits in the fair queue. */
  queued = false;
  /**
   * Whether a dispatch is in progress. A second one would only wait for the endpoint's row lock.
   */
  dispatching = false;
  /** Whether the endpoint waits before a failed dispatch is retried. */
  backingOff = false;
  /** Consecutive dispatches that failed, or found the endpoint locked. */
  failures = 0;

  constructor(id: EndpointId, concurrency: number, failing: boolean) {
    this.id = id;
    this.tenantId = id.tenantId;
    this.concurrency = concurrency;
    this.failing = failing;
  }

  /**
   * Returns the number of exchanges that may be added. Unrecorded exchanges count as free, because
   * the next dispatch records them before it claims.
   */
  get free(): number {
    return this.concurrency - this.held + this.unrecorded.length;
  }

  /** Returns whether the endpoint's state is no longer needed. */
  get idle(): boolean {
    return this.held === 0 && !this.queued && !this.dispatching && !this.backingOff;
  }
}
