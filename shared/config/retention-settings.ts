import { wholeNumber } from './schemas.ts';
import { type Settings, WORKERS } from './setting.ts';

/** More than the 7 days for which the log keeps records that workers have not stored yet. */
const DAYS_MIN = 8;
const DAYS_MAX = 36_500;

const days = wholeNumber(DAYS_MIN, DAYS_MAX, DAYS_MIN, 'days');

function keptFor(what: string, example: string) {
  return {
    allowed: days.allowed,
    schema: days.schema.unwrap().optional(),
    usedBy: ['embedded', ...WORKERS, 'cli'],
    meaning: `Days for which ${what} are kept. Unset: for ever.`,
    example,
  } as const;
}

/** The settings of what is deleted by age. */
export const retention = {
  SLUICE_RETENTION_AGENTS_DAYS: keptFor(
    'the records of agents, from which their current values were merged,',
    '365',
  ),
  SLUICE_RETENTION_CONVERSATIONS_DAYS: keptFor(
    'the records of conversations, from which their current values were merged,',
    '365',
  ),
  SLUICE_RETENTION_MESSAGES_DAYS: keptFor('MessageSent events, but not their counts,', '90'),
  SLUICE_RETENTION_EVENTS_DAYS: keptFor('automation events, but not the states of conversations,', '90'),
  SLUICE_RETENTION_CREDENTIALS_DAYS: keptFor('the rows of credentials that are erased', '90'),
  SLUICE_RETENTION_WEBHOOKS_DAYS: keptFor('webhooks that were sent, and their attempts,', '30'),
  SLUICE_RETENTION_AUDIT_DAYS: keptFor('the audits of read credentials and of erasures', '730'),
  SLUICE_ERASED_IDS_DAYS: {
    ...wholeNumber(DAYS_MIN, DAYS_MAX, 90, 'days'),
    usedBy: ['embedded', ...WORKERS],
    meaning:
      'Days for which hashes of erased ids are kept, so that records of the log or of a restored backup are not stored again. At least as long as your oldest backup.',
    example: '90',
  },
} as const satisfies Settings;
