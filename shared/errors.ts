/** Options of {@link AppError}. */
export interface AppErrorOptions {
  /** Whether the same call may succeed later without a change. Default false. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/**
 * The error class of Sluice. Callers decide by `code` and `retryable`, never by the message's text.
 * Codes are short upper-case words such as `DATABASE_UNAVAILABLE`.
 */
export class AppError extends Error {
  readonly code: string;
  readonly retryable: boolean;

  constructor(code: string, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

/**
 * Code of the AppError of a transaction that would exceed the bounds of one transaction. Nothing of
 * it is written; fewer records at a time succeed.
 */
export const BATCH_BOUND_EXCEEDED = 'BATCH_BOUND_EXCEEDED';

/** Returns the message of anything that was thrown, for logs. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Returns the `code` of anything that was thrown (SQLSTATE, errno name, AppError code), or
 * undefined.
 */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const code = (error as { code?: unknown }).code;
  return typeof code === 'string' ? code : undefined;
}
