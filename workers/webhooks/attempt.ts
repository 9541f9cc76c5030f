import type { Exchange } from '../../shared/webhooks/exchange.ts';
import type { DueDelivery } from './sql/queue.ts';

/**
 * A delivery under lease, whose attempt is counted, with its endpoint's URL and secrets as of the
 * claim. It is sent within milliseconds, or given back.
 */
export interface ClaimedDelivery extends DueDelivery {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly body: Buffer;
  /** The token that identifies the lease. */
  readonly token: string;
  readonly claimedAtMs: number;
  readonly url: string;
  readonly secrets: readonly Uint8Array[];
}

/** A delivery and the result of sending it. */
export interface Attempt extends Exchange {
  readonly delivery: ClaimedDelivery;
}
