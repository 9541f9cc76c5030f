import type { LeasedDelivery } from '../../shared/postgres/webhook-lease.ts';

/** A delivery ready to be sent: claimed, with what its endpoint said at that moment. */
export interface PreparedDelivery extends LeasedDelivery {
  /** The lease under which it is sent. */
  readonly token: string;
  readonly leaseUntilMs: number;
  readonly url: string;
  readonly secrets: readonly Uint8Array[];
}

/** What came of one exchange. */
export type Outcome =
  | { readonly kind: 'delivered'; readonly status: number; readonly answer: Buffer }
  | {
      readonly kind: 'failed';
      /** Undefined where no answer came. */
      readonly status: number | undefined;
      readonly answer: Buffer | undefined;
      /** In words, for the endpoint's owner. */
      readonly error: string;
      /** The endpoint asked to be left alone until then. */
      readonly pausedUntilMs: number | undefined;
      /** The endpoint said that it is gone for good (410). */
      readonly gone: boolean;
    };

/** A delivery after its exchange. */
export interface Attempt {
  readonly delivery: PreparedDelivery;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  readonly outcome: Outcome;
}
