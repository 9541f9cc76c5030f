export interface AppErrorOptions {
  /** Whether the same call may succeed later without changes. Default false. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/**
 * The error class of Sluice. Callers handle errors by `code` and `retryable`, never by the text of
 * the message. Codes are short upper-case words such as `DATABASE_UNAVAILABLE`.
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
 * Code of the AppError of a transaction that would exceed a limit of one transaction, such as that
 * on deliveries. The transaction writes nothing; smaller batches may succeed.
 */
export const BATCH_BOUND_EXCEEDED = 'BATCH_BOUND_EXCEEDED';

/** Returns the message of a thrown value of any type, for logs. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns a message of several lines, such as one of a server, as one line. */
export const onOneLine = (message: string): string => message.replace(/\s+/g, ' ');

/**
 * Returns the `code` of a thrown value of any type (SQLSTATE, errno name, AppError code), or
 * undefined.
 */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const code = (error as { code?: unknown }).code;
  return typeof code === 'string' ? code : undefined;
}
