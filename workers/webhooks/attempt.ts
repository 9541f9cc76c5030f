import type { Exchange } from '../../shared/webhooks/exchange.ts';
import type { LeasedDelivery } from './sql/queue.ts';

/** A claimed delivery, with its endpoint's URL and secrets as of the claim. */
export interface PreparedDelivery extends LeasedDelivery {
  /** The token that identifies the lease. */
  readonly token: string;
  readonly leaseUntilMs: number;
  readonly url: string;
  readonly secrets: readonly Uint8Array[];
}

/** A delivery and the result of sending it. */
export interface Attempt extends Exchange {
  readonly delivery: PreparedDelivery;
}
