/** The `traceparent` of W3C Trace Context: version, trace id, span id and flags. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The parts of a traceparent. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** Returns the text if it is a valid traceparent. */
export function validTraceparent(text: string | undefined): string | undefined {
  return text !== undefined && TRACEPARENT.test(text) ? text : undefined;
}

/** Returns the parts of a valid traceparent. */
export function readTraceparent(traceparent: string): TraceContext {
  return {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    isSampled: isSampled(traceparent),
  };
}

/** Returns whether the sender of a valid traceparent has recorded its span. */
export function isSampled(traceparent: string): boolean {
  return (Number.parseInt(traceparent.slice(53), 16) & 1) === 1;
}

/** Returns the members of log lines that name a trace, as OpenTelemetry names them. */
export function traceFields(traceparent: string | null | undefined): {
  readonly trace_id?: string;
  readonly span_id?: string;
} {
  const valid = validTraceparent(traceparent ?? undefined);
  if (valid === undefined) return {};
  const { traceId, spanId } = readTraceparent(valid);
  return { trace_id: traceId, span_id: spanId };
}
