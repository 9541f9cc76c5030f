/** The error table: HTTP status and message of every code. */
export const ERRORS = {
  '400-01': { status: 400, message: 'Bad request' },
  '401-01': { status: 401, message: 'Unauthorized' },
  '403-01': { status: 403, message: 'Forbidden Response' },
  '404-01': { status: 404, message: 'Not Found' },
  '409-01': { status: 409, message: 'Conflict' },
  '413-01': { status: 413, message: 'Request Entity Too Large' },
  '422-01': { status: 422, message: 'Unprocessable Entity' },
  '429-01': { status: 429, message: 'Too Many Requests' },
  '500-01': { status: 500, message: 'Internal server error' },
  '503-01': { status: 503, message: 'Service Unavailable' },
} as const;

export type ErrorCode = keyof typeof ERRORS;

export const ERROR_CODES = Object.keys(ERRORS) as ErrorCode[];

/** A problem with one part of a request. Never contains a value of the request. */
export interface ErrorDetail {
  /**
   * The location: a member's path such as `attributes[0].name`, a parameter's or header's name, or
   * `body`.
   */
  readonly path: string;
  readonly message: string;
}

/**
 * The reason why a request is refused. Checks return it; `refuse` (shared/http/failures.ts) turns
 * it into a response.
 */
export interface Refusal {
  readonly code: ErrorCode;
  readonly details?: readonly ErrorDetail[] | undefined;
  /** Whole seconds. Default: 1 for 503-01, none for other codes. */
  readonly retryAfterSeconds?: number;
}

export interface ErrorEnvelope {
  readonly error: {
    readonly requestId: string;
    readonly code: ErrorCode;
    readonly message: string;
    readonly details?: readonly ErrorDetail[];
  };
}

/**
 * Maximum number of details: a request with many problems must not cause an equally long answer.
 */
export const DETAILS_MAX = 20;

export function errorEnvelope(
  requestId: string,
  code: ErrorCode,
  details: readonly ErrorDetail[] = [],
): ErrorEnvelope {
  const { message } = ERRORS[code];
  if (details.length === 0) return { error: { requestId, code, message } };
  return { error: { requestId, code, message, details: details.slice(0, DETAILS_MAX) } };
}
