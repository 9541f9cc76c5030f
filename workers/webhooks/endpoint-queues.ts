import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import { EndpointQueue } from './endpoint-queue.ts';

/** The endpoints of which this dispatcher has something in memory. */
export class EndpointQueues {
  readonly #concurrency: number;
  readonly #queues = new Map<string, EndpointQueue>();

  /** `concurrency` is that of a healthy endpoint. */
  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** Returns the queue of an endpoint. `failing` applies if it is new. */
  of(id: EndpointId, { failing }: { readonly failing: boolean }): EndpointQueue {
    const key = endpointKey(id);
    const known = this.#queues.get(key);
    if (known) return known;
    const queue = new EndpointQueue(id, this.#concurrency, failing);
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
