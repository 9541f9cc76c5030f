import type { OperationDescription } from '../../shared/openapi/operation.ts';

type OwnErrors = NonNullable<OperationDescription['ownErrors']>;

/** The meanings of 401-01 and 429-01 for all operations. */
const ACCESS: OwnErrors = {
  '401-01': {
    meaning:
      'No valid key: a header is missing, unknown, wrong, expired or revoked. Or no valid portal token: it has expired, was changed, ' +
      'or its API key has ended; `details` says so.',
  },
  '429-01': {
    meaning:
      'The tenant, or the key if it has its own rate, makes too many requests that need this scope. Nothing was done. ' +
      'Retry after `Retry-After` seconds.',
    details: [{ path: 'requests', message: 'requests that need one scope are limited to 100 per second' }],
  },
};

/** The meanings of 401-01, 429-01 and 503-01 on the admin listener, which does not use the event log. */
export const DATABASE_ERRORS: OwnErrors = {
  ...ACCESS,
  '503-01': { meaning: 'The database is unavailable. Retry after `Retry-After` seconds.' },
};

/** The same for operations that are not idempotent. */
export const CREATE_ERRORS: OwnErrors = {
  ...ACCESS,
  '503-01': {
    meaning:
      'The database is unavailable. The request may have succeeded all the same: read the list before you retry, after ' +
      '`Retry-After` seconds.',
  },
};
