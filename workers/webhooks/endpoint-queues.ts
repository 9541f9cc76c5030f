import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import { EndpointQueue } from './endpoint-queue.ts';
import { EndpointSlots, type Slots } from './slots.ts';

/** The endpoints of which this dispatcher has something in memory. */
export class EndpointQueues {
  readonly #concurrency: number;
  readonly #slots: Slots;
  readonly #queues = new Map<string, EndpointQueue>();

  /** `concurrency` is that of a healthy endpoint. */
  constructor(concurrency: number, slots: Slots) {
    this.#concurrency = concurrency;
    this.#slots = slots;
  }

  /** Returns the queue of an endpoint. `failing` applies if it is new. */
  of(id: EndpointId, { failing }: { readonly failing: boolean }): EndpointQueue {
    const key = endpointKey(id);
    const known = this.#queues.get(key);
    if (known) return known;
    const slots = new EndpointSlots(this.#slots, id.tenantId);
    slots.failing = failing;
    const queue = new EndpointQueue(id, this.#concurrency, slots);
    this.#queues.set(key, queue);
    return queue;
  }

  values(): Iterable<EndpointQueue> {
    return this.#queues.values();
  }

  /** Forgets an endpoint whose state is no longer needed. */
  deleteIdle(queue: EndpointQueue): void {
    if (queue.idle) this.#queues.delete(endpointKey(queue.id));
  }
}

function endpointKey({ tenantId, endpointId }: EndpointId): string {
  return JSON.stringify([tenantId, endpointId]);
}
