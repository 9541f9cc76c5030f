import type { Clock } from '../../shared/clock.ts';
import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import { RECORD_BYTES_MAX } from '../../shared/contracts/event.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { reportLimits } from '../../shared/http/rates/limit-state.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { AcceptOptions } from '../accept/accept.ts';
import type { AcceptWithin, LimitedOutcomes } from '../limits/accept-within.ts';
import type { EncodedRecord } from '../publish/publish.ts';

/** Dependencies of the operations that write records. */
export interface WriteDeps {
  readonly accept: AcceptWithin;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

/** Accepts the records for the caller of the request, and reports the limits that were checked in the answer. */
export async function acceptRecords(
  c: HttpContext,
  { accept }: WriteDeps,
  records: readonly EncodedRecord[],
  options: AcceptOptions,
): Promise<LimitedOutcomes> {
  const result = await accept(c.get('apiKey'), records, options);
  reportLimits(c, result.limits);
  return result;
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
