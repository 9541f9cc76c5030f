import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { Attempt } from './attempt.ts';
import type { SlotUser } from './slots.ts';

/** An attempt whose result is not stored yet, and the function that frees its slot afterwards. */
export interface UnrecordedAttempt {
  readonly attempt: Attempt;
  readonly release: () => void;
}

/** The in-memory state of an endpoint that this dispatcher is working on. */
export class EndpointQueue implements SlotUser {
  readonly id: EndpointId;
  readonly tenantId: string;
  /** Exchanges in flight or unrecorded; each holds a slot. */
  held = 0;
  unrecorded: UnrecordedAttempt[] = [];
  /** Whether the last attempt failed, as of the last dispatch. */
  failing: boolean;
  /** Exchanges that the endpoint may have concurrently, as of the last dispatch. */
  concurrency: number;
  /** Waits in the fair queue. */
  queued = false;
  /** One dispatch at a time: a second one would only wait for the endpoint's row lock. */
  dispatching = false;
  /** Waits before it retries a failed dispatch. */
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
   * Exchanges that may be added. Unrecorded ones count as free: the next dispatch records them
   * before it claims.
   */
  get free(): number {
    return this.concurrency - this.held + this.unrecorded.length;
  }

  /** Whether nothing of its state is needed any more. */
  get idle(): boolean {
    return this.held === 0 && !this.queued && !this.dispatching && !this.backingOff;
  }
}
