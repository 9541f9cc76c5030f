import { FairQueue } from '../../shared/fair-queue.ts';
import type { EndpointWork } from './dispatch.ts';
import type { EndpointQueue, Unrecorded } from './endpoint-queue.ts';
import type { CreatedBetween } from './sql/backfill-queue.ts';

/** The part of a dispatch that concerns one endpoint. */
export interface Task {
  readonly endpoint: EndpointQueue;
  /** What the dispatch records. */
  readonly unrecorded: Unrecorded;
  /** Maximum number of deliveries to claim. */
  readonly limit: number;
  /** Deliveries of these that may be claimed beyond the concurrency, to be sent soon. */
  readonly ahead: number;
}

/** Returns what a dispatch does for a task. Must be called once, when the dispatch begins. */
export function workOf(
  { endpoint, unrecorded, limit, ahead }: Task,
  backfill?: CreatedBetween,
): EndpointWork {
  const { id, held, failing, readAhead, holdExpired } = endpoint;
  const givenBack = new Set(unrecorded.unsent.map(({ messageId }) => messageId));
  endpoint.holdExpired = false;
  return {
    id,
    ...unrecorded,
    limit,
    held: held - unrecorded.attempts.length - unrecorded.unsent.length,
    ahead,
    failing,
    readAhead,
    isClaimed: (messageId) => endpoint.isClaimed(messageId) && !givenBack.has(messageId),
    holdExpired,
    backfill,
  };
}

/** Maximum number of endpoints of one dispatch. */
const ENDPOINTS_MAX = 32;

/** The endpoints that wait for a dispatch, served round-robin by tenant. */
export class TaskQueue {
  /** Whether nothing may be claimed any more. */
  closing = false;
  readonly #endpoints = new FairQueue<EndpointQueue>();

  add(endpoint: EndpointQueue): void {
    endpoint.queued = true;
    this.#endpoints.add(endpoint.tenantId, endpoint);
  }

  /**
   * Takes the endpoints of the next dispatch, and slots for the deliveries that it may claim. An
   * endpoint whose last dispatch failed together with others is taken alone.
   */
  take(): Task[] {
    const tasks: Task[] = [];
    while (tasks.length < ENDPOINTS_MAX) {
      const endpoint = this.#endpoints.take((candidate) => this.#isReady(candidate, tasks.length > 0));
      if (!endpoint) break;
      const { limit, ahead } = endpoint.reserve({ mayClaim: !this.closing });
      endpoint.queued = false;
      endpoint.dispatching = true;
      tasks.push({ endpoint, unrecorded: endpoint.takeUnrecorded(), limit, ahead });
      if (endpoint.alone) break;
    }
    return tasks;
  }

  #isReady(endpoint: EndpointQueue, inCompany: boolean): boolean {
    if (endpoint.dispatching || endpoint.backingOff || (endpoint.alone && inCompany)) return false;
    return endpoint.hasResults || (!this.closing && endpoint.claimable > 0);
  }
}
