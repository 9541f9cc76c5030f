import type { Clock } from '../../shared/clock.ts';
import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import { RECORD_BYTES_MAX } from '../../shared/contracts/event.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { AcceptWithin } from '../limits/accept-within.ts';

/** What the operations that write records work with. */
export interface WriteDeps {
  readonly accept: AcceptWithin;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

/** The detail of a record that is valid but larger than the log takes. */
export const TOO_LARGE_DETAIL = {
  path: '',
  message: `the record must be at most ${RECORD_BYTES_MAX / 1024} KiB once encoded`,
};

/** What speaks against a record whose id was used before. */
export function conflictDetail(idMember: string): ErrorDetail {
  return { path: idMember, message: 'was accepted before with other content' };
}
