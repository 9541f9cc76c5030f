import type { OperationDescription } from '../../shared/openapi/operation.ts';

/** What 503-01 means on the admin listener, where nothing goes to the event log. */
export const UNAVAILABLE: NonNullable<OperationDescription['ownErrors']> = {
  '503-01': { meaning: 'The database cannot be asked now. Try again after `Retry-After` seconds.' },
};

/** The same where trying again makes another one. */
export const MADE_OR_NOT: NonNullable<OperationDescription['ownErrors']> = {
  '503-01': {
    meaning:
      'The database cannot be asked now. It may have been made all the same: look at the list before you try again, after ' +
      '`Retry-After` seconds.',
  },
};
