import { FairQueue } from '../../shared/fair-queue.ts';
import type { EndpointWork } from './dispatch.ts';
import type { EndpointQueue, Unrecorded } from './endpoint-queue.ts';
import type { Slots } from './slots.ts';
import type { CreatedBetween } from './sql/backfill-queue.ts';

/** The part of a dispatch that concerns one endpoint. */
export interface Task {
  readonly endpoint: EndpointQueue;
  /** What the dispatch records. */
  readonly unrecorded: Unrecorded;
  /** Functions that free the slots of the deliveries that may be claimed. */
  readonly releases: (() => void)[];
}

/** Returns what a dispatch does for a task. Must be called once, when the dispatch begins. */
export function workOf({ endpoint, unrecorded, releases }: Task, backfill?: CreatedBetween): EndpointWork {
  const { id, held, ahead, failing, readAhead, holdExpired } = endpoint;
  const givenBack = new Set(unrecorded.unsent.map(({ messageId }) => messageId));
  endpoint.holdExpired = false;
  return {
    id,
    ...unrecorded,
    limit: releases.length,
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
  readonly #slots: Slots;
  readonly #endpoints = new FairQueue<EndpointQueue>();

  constructor(slots: Slots) {
    this.#slots = slots;
  }

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
      const releases: (() => void)[] = [];
      while (releases.length < endpoint.free && this.#slotsFor(endpoint, releases.length) > 0) {
        releases.push(this.#slots.take(endpoint));
      }
      endpoint.queued = false;
      endpoint.dispatching = true;
      tasks.push({ endpoint, unrecorded: endpoint.takeUnrecorded(), releases });
      if (endpoint.alone) break;
    }
    return tasks;
  }

  #isReady(endpoint: EndpointQueue, inCompany: boolean): boolean {
    if (endpoint.dispatching || endpoint.backingOff || (endpoint.alone && inCompany)) return false;
    return endpoint.hasResults || (endpoint.free > 0 && this.#slotsFor(endpoint, 0) > 0);
  }

  /** Returns the number of slots that the endpoint can take in addition to those `taken`. */
  #slotsFor({ tenantId, failing, held, unrecorded, concurrency }: EndpointQueue, taken: number): number {
    if (this.closing) return 0;
    const isAhead = held - unrecorded + taken >= concurrency;
    return this.#slots.free({ tenantId, failing, held: held + taken }, isAhead);
  }
}
