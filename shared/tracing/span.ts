import type { Logger } from '../logging.ts';

/** Values of a span that can be searched for. Never a secret, a body, or the query of a URL. */
export type Attributes = Readonly<Record<string, string | number | undefined>>;

export interface SpanOptions {
  readonly kind: 'server' | 'client' | 'producer' | 'consumer';
  /** The traceparent of the parent. Default: the span begins a trace. */
  readonly parent?: string | undefined;
  /** Traceparents of spans in other traces. */
  readonly links?: readonly string[];
  /** Default: now. */
  readonly startedAtMs?: number;
}

/** A span that is recorded. */
export interface Span {
  readonly traceparent: string;
  set(attributes: Attributes): void;
  /** Marks the span as failed. `type`: a class of errors, of which there are few. */
  fail(type: string, text?: string): void;
  end(): void;
}

export interface Tracer {
  /** The system that the log is in, as spans name it. */
  readonly messagingSystem: string;
  /** Starts a span; returns undefined if the sampler drops it. */
  startSpan(name: string, options: SpanOptions): Span | undefined;
  /** Exports the spans that have ended. */
  close(): Promise<void>;
}

export interface TracingOptions {
  /** The name of the service, unless OTEL_SERVICE_NAME is set. */
  readonly service: string;
  readonly messagingSystem: string;
  readonly logger: Logger;
}
