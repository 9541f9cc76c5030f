import type { Exchange } from '../../shared/webhooks/exchange.ts';
import type { LeasedDelivery } from './sql/lease.ts';

/** A delivery ready to be sent: claimed, with what its endpoint said at that moment. */
export interface PreparedDelivery extends LeasedDelivery {
  /** The lease under which it is sent. */
  readonly token: string;
  readonly leaseUntilMs: number;
  readonly url: string;
  readonly secrets: readonly Uint8Array[];
}

/** A delivery after its exchange. */
export interface Attempt extends Exchange {
  readonly delivery: PreparedDelivery;
}
