import type { Exchange } from '../../shared/webhooks/exchange.ts';
import type { OutgoingEndpoint } from '../../shared/webhooks/outgoing-endpoint.ts';
import type { DueDelivery } from './sql/queue.ts';

/**
 * A delivery under lease, whose attempt is counted, with its endpoint's URL, secrets and custom
 * headers as of the claim. It is sent within milliseconds, or given back.
 */
export interface ClaimedDelivery extends DueDelivery, OutgoingEndpoint {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly body: Buffer;
  /** W3C trace context of the record that caused the event; null: it had none. */
  readonly traceparent: string | null;
  /** The token that identifies the lease. */
  readonly token: string;
  /** Until when it may be sent, because too little of its lease is left afterwards. */
  readonly sendUntilMs: number;
  /** When it may be sent, at the rate of its endpoint. */
  readonly sendAtMs: number;
  readonly url: string;
  /** When the owner had last resumed or enabled the endpoint, as of the claim; null: never. */
  readonly resumedAtMs: number | null;
}

/** A delivery and the result of sending it. */
export interface Attempt extends Exchange {
  readonly delivery: ClaimedDelivery;
}
