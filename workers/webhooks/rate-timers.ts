import type { Clock } from '../../shared/clock.ts';
import type { EndpointQueue } from './endpoint-queue.ts';

export interface RateTimersOptions {
  readonly clock: Clock;
  /** Called when the next delivery of an endpoint may be sent. */
  readonly onSend: (endpoint: EndpointQueue) => void;
  /** Called when deliveries of an endpoint may be claimed again. */
  readonly onClaim: (endpoint: EndpointQueue) => void;
}

/** The timers of endpoints with a rate, at most two for each of them. */
export class RateTimers {
  readonly #options: RateTimersOptions;

  constructor(options: RateTimersOptions) {
    this.#options = options;
  }

  /** Waits for the time of the next delivery, if that is why it is not sent yet. */
  waitToSend(endpoint: EndpointQueue): void {
    const { nextSendAtMs } = endpoint;
    if (nextSendAtMs === undefined || endpoint.timed) return;
    const waitMs = nextSendAtMs - this.#options.clock.nowMs();
    // Otherwise it waits for the end of an exchange.
    if (waitMs <= 0) return;
    endpoint.timed = true;
    setTimeout(() => {
      endpoint.timed = false;
      this.#options.onSend(endpoint);
    }, waitMs).unref();
  }

  /** Lets nothing of an endpoint be claimed until a time. */
  throttle(endpoint: EndpointQueue, untilMs: number): void {
    endpoint.throttled = true;
    setTimeout(() => {
      endpoint.throttled = false;
      this.#options.onClaim(endpoint);
    }, untilMs - this.#options.clock.nowMs()).unref();
  }
}
