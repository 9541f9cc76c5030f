const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The caller's `traceparent` where it is a valid one (W3C Trace Context), else undefined. */
export function validTraceparent(header: string | undefined): string | undefined {
  return header !== undefined && TRACEPARENT.test(header) ? header : undefined;
}
