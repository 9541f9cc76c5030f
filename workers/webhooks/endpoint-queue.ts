import type { EndpointId } from '../../shared/postgres/webhook-due-endpoints.ts';
import type { Attempt } from './attempt.ts';
import type { SlotUser } from './slots.ts';

/** An attempt that waits to be recorded, with what gives its slot back afterwards. */
export interface Finished {
  readonly attempt: Attempt;
  readonly release: () => void;
}

/** What one dispatcher knows of an endpoint that it is busy with. */
export class Lane implements SlotUser {
  readonly id: EndpointId;
  readonly tenantId: string;
  /** Exchanges that run or wait to be recorded. */
  held = 0;
  /** Attempts that wait to be recorded. */
  finished: Finished[] = [];
  /** As the last visit found it, before that as it was told: what it takes meanwhile is counted by it. */
  failing: boolean;
  concurrency: number;
  /** Stands in the line for a visit. */
  wanted = false;
  /** One visit at a time: two would only wait for each other's lock. */
  visiting = false;
  /** Waits before the next visit, after one that could not be made. */
  resting = false;
  /** Visits in a row that could not be made. */
  fruitless = 0;

  constructor(id: EndpointId, concurrency: number, failing: boolean) {
    this.id = id;
    this.tenantId = id.tenantId;
    this.concurrency = concurrency;
    this.failing = failing;
  }

  get idle(): boolean {
    return this.held === 0 && !this.wanted && !this.visiting && !this.resting;
  }
}
