/**
 * An error in data that callers can send at any rate. It has no stack trace, because collecting one
 * takes longer than reading most of such data.
 */
export class StacklessError extends Error {
  constructor(message: string) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
