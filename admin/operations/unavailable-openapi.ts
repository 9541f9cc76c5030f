import type { OperationDescription } from '../../shared/openapi/operation.ts';

const LIMITED: NonNullable<OperationDescription['ownErrors']> = {
  '429-01': {
    meaning:
      'The tenant, or the key where it has a rate of its own, makes too many requests that need this scope. Nothing was done. Send it ' +
      'again after `Retry-After` seconds.',
    details: [{ path: 'requests', message: 'that need one scope are at most 100 per second' }],
  },
};

/** What 429-01 and 503-01 mean on the admin listener, where nothing goes to the event log. */
export const UNAVAILABLE: NonNullable<OperationDescription['ownErrors']> = {
  ...LIMITED,
  '503-01': { meaning: 'The database cannot be asked now. Try again after `Retry-After` seconds.' },
};

/** The same where trying again makes another one. */
export const MADE_OR_NOT: NonNullable<OperationDescription['ownErrors']> = {
  ...LIMITED,
  '503-01': {
    meaning:
      'The database cannot be asked now. It may have been made all the same: look at the list before you try again, after ' +
      '`Retry-After` seconds.',
  },
};
