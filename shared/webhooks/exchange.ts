import type { ErrorClass } from './failure.ts';
import type { PartDurations } from './timing.ts';

/** A webhook to send, with its URL, signing secrets and custom headers. */
export interface OutgoingWebhook {
  readonly url: string;
  readonly messageId: string;
  /** Exactly the bytes that are signed and sent. */
  readonly body: Uint8Array;
  readonly secrets: readonly Uint8Array[];
  /** W3C trace context for the header of this name, unless a custom header has the name. */
  readonly traceparent?: string | null;
  /** Custom headers. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The result of one exchange. */
export type Outcome =
  | { readonly kind: 'delivered'; readonly status: number; readonly answer: Buffer }
  | {
      readonly kind: 'failed';
      /** The response's status; undefined without a response. */
      readonly status: number | undefined;
      readonly answer: Buffer | undefined;
      /** The reason as text for the endpoint's owner. */
      readonly error: string;
      readonly errorClass?: ErrorClass;
      /** When the pause of the Retry-After header ends; undefined without one. */
      readonly pausedUntilMs: number | undefined;
      /** Whether the endpoint is gone for good (410). */
      readonly gone: boolean;
    };

/** One request to an endpoint, from its start to its end. */
export interface Exchange {
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  readonly outcome: Outcome;
  /** Undefined: not measured. */
  readonly parts?: PartDurations;
}

/** Returns the parts of an exchange and the class of its error, for the log of attempts. */
export function attemptPartsOf({ parts, outcome }: Pick<Exchange, 'parts' | 'outcome'>) {
  return { ...parts, errorClass: outcome.kind === 'failed' ? (outcome.errorClass ?? null) : null };
}
