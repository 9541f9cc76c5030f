import type { Clock } from '../../shared/clock.ts';
import type { ErrorDetail, Refusal } from '../../shared/contracts/errors.ts';
import { type Envelope, RECORD_BYTES_MAX } from '../../shared/contracts/event.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { indexRanges, KNOWN_EXACTLY, KNOWN_RECORDS_HEADER } from '../../shared/contracts/known-records.ts';
import { setHeader } from '../../shared/http/answers.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { reportLimits } from '../../shared/http/rates/limits.ts';
import { requestTraceparent } from '../../shared/http/request-span.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import type { AcceptOptions, Outcome } from '../accept/accept.ts';
import type { LimitedAccept, LimitedOutcomes } from '../limits/limited-accept.ts';
import { type EncodedRecord, encodeRecord } from '../publish/publish.ts';
import type { DataQuality } from '../quality/data-quality.ts';

/** Dependencies of the operations that write records. */
export interface WriteDeps {
  readonly accept: LimitedAccept;
  readonly quality: DataQuality;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

/** The members that all records of one request have in common. */
export interface RequestFacts {
  readonly tenantId: string;
  readonly requestId: string;
  /** The W3C trace context of the request: that of its span, or else the caller's if it is valid. */
  readonly traceparent: string | undefined;
  readonly acceptedAtMs: number;
}

/** The members of a record that come from a validated item. */
export interface RecordContent {
  /** The caller's id of the record. If undefined, a new id is generated. */
  readonly id: string | undefined;
  readonly entity: string;
  readonly contentHash: string | undefined;
}

export function requestFacts(c: HttpContext, clock: Clock): RequestFacts {
  return {
    tenantId: c.get('apiKey').tenantId,
    requestId: c.get('requestId'),
    traceparent: requestTraceparent(c),
    acceptedAtMs: clock.nowMs(),
  };
}

export function toRecord(
  facts: RequestFacts,
  kind: Kind,
  { id, entity, contentHash }: RecordContent,
  nextId: IdGenerator,
): Envelope {
  return { kind, ...facts, id: id ?? nextId(), idGenerated: id === undefined, entity, contentHash };
}

const PATIENT: AcceptOptions = { lookUpStored: true, isPatient: true };

/**
 * Accepts the records of a request, and reports the checked limits in the headers of the response.
 */
export function acceptRecords(
  c: HttpContext,
  { accept }: WriteDeps,
  records: readonly EncodedRecord[],
  options: AcceptOptions,
): LimitedOutcomes {
  const isExact = c.req.header(KNOWN_RECORDS_HEADER) === KNOWN_EXACTLY;
  const result = accept(c.get('apiKey'), records, isExact ? PATIENT : options);
  reportLimits(c, result.limits);
  return result;
}

/**
 * Accepts the only record of a request. A record that cannot be encoded is `too-large`, without
 * counting towards any limit. A header of the response reports a record that is known.
 */
export async function acceptRecord(
  c: HttpContext,
  deps: WriteDeps,
  record: Envelope,
  json: string | Buffer,
  options: AcceptOptions,
): Promise<{ readonly refusal: Refusal } | { readonly refusal?: undefined; readonly outcome: Outcome }> {
  const encoded = encodeRecord(record, json);
  if (!encoded) return { outcome: 'too-large' };
  const { outcomes, refusal } = acceptRecords(c, deps, [encoded], options);
  if (refusal) return { refusal };
  const [outcome] = await outcomes;
  if (outcome !== 'accepted') deps.quality.outcomes(record.tenantId, record.kind, [outcome!]);
  if (outcome === 'known') setHeader(c, KNOWN_RECORDS_HEADER, indexRanges([0]));
  return { outcome: outcome! };
}

/** The detail of a record that is valid but too large for the log. */
export const TOO_LARGE_DETAIL = {
  path: '',
  message: `the record must be at most ${RECORD_BYTES_MAX / 1024} KiB once encoded`,
};

/** Returns the detail of a record whose id was accepted before with other content. */
export function conflictDetail(idMember: string): ErrorDetail {
  return { path: idMember, message: `this ${idMember} was accepted before with other content` };
}
