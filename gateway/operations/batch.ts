import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { indexRanges, KNOWN_RECORDS_HEADER } from '../../shared/contracts/known-records.ts';
import type { ParsedRecord } from '../../shared/contracts/parsed.ts';
import {
  FAIL_BAD_PARAMS,
  failBadParams,
  failConflict,
  failUnavailable,
  type IdMember,
  type ItemResult,
} from '../../shared/contracts/results.ts';
import { answerJson, setHeader } from '../../shared/http/answers.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail, refuse } from '../../shared/http/failures.ts';
import { mapInRequestSlices } from '../../shared/http/json-body/request-slices.ts';
import { isAccepted, type Outcome } from '../accept/accept.ts';
import { type EncodedRecord, encodeRecord } from '../publish/publish.ts';
import {
  acceptRecords,
  type RequestFacts,
  requestFacts,
  TOO_LARGE_DETAIL,
  toRecord,
  type WriteDeps,
} from './write.ts';

export const ITEMS_MAX = 1000;

export interface BatchOptions {
  readonly kind: Kind;
  readonly idMember: IdMember;
  readonly readItem: (value: JsonValue) => ParsedRecord;
  /**
   * Returns an item, or its problem if its time does not fit the time of acceptance. Default: every
   * time fits.
   */
  readonly checkTime?: (parsed: ParsedRecord, acceptedAtMs: number) => ParsedRecord;
  /** Whether stored ids are looked up. If not, workers decide conflicts with them. */
  readonly lookUpStored: boolean;
}

/** A validated item: the reason of its refusal, or a record to accept. */
type Item =
  | { readonly eventId: string; readonly error: string; readonly encoded?: undefined }
  | { readonly eventId: string; readonly encoded: EncodedRecord };

/**
 * Returns a handler that accepts a batch of records and answers with one result per item, in order.
 * All items are validated before any record is published. Answers 200 if at least one record was
 * accepted. Otherwise answers 503-01 if any record was unavailable, since a retry may succeed in
 * part. Answers 400 with the results in all other cases.
 */
export function batchOperation(deps: WriteDeps, options: BatchOptions) {
  const { kind, readItem, lookUpStored } = options;
  return async (c: HttpContext): Promise<Response> => {
    const scanned = c.get('scanned');
    const read = scanned ? undefined : readItems(c.get('body'));
    if (read && read.unknown.length > 0) deps.quality.unknownMembers(c, kind, read.unknown);
    if (read?.ok === false) return fail(c, '422-01', read.details);
    const facts = requestFacts(c, deps.clock);
    const encode = (parsed: ParsedRecord) => {
      if (parsed.unknown) deps.quality.unknownMembers(c, kind, parsed.unknown);
      return toItem(facts, parsed, options, deps);
    };
    const items = await (scanned
      ? mapInRequestSlices(facts.tenantId, scanned.records, encode)
      : mapInRequestSlices(facts.tenantId, read!.items, (value) => encode(readItem(value))));
    const records = items.flatMap(({ encoded }) => encoded ?? []);
    const result = acceptRecords(c, deps, records, { lookUpStored });
    if (result.refusal) return refuse(c, result.refusal);
    const outcomes = await result.outcomes;
    deps.quality.outcomes(facts.tenantId, kind, outcomes);
    const accepted = outcomes.filter(isAccepted).length;
    if (accepted === 0 && outcomes.includes('unavailable')) return fail(c, '503-01');
    if (outcomes.includes('known')) setHeader(c, KNOWN_RECORDS_HEADER, knownRecords(items, outcomes));
    const results = toResults(items, outcomes, options.idMember);
    return answerJson(c, { errorCount: items.length - accepted, results }, accepted > 0 ? 200 : 400);
  };
}

/** Unknown members of a body that are counted by name. */
const BODY_NAMES_MAX = 20;

type ReadItems = { readonly unknown: readonly string[] } & (
  | { readonly ok: true; readonly items: readonly JsonValue[] }
  | { readonly ok: false; readonly details: ErrorDetail[] }
);

/** Returns the unvalidated items of the body, or the details of a 422-01, and the names of unknown members. */
export function readItems(body: JsonObject): ReadItems {
  const { items } = body;
  const others = Object.keys(body).filter((name) => name !== 'items');
  const unknown = others.slice(0, BODY_NAMES_MAX).map((name) => `body.${name}`);
  const invalid = (message: string) => ({
    ok: false as const,
    details: [{ path: 'items', message }],
    unknown,
  });
  if (items === undefined) return invalid('is required');
  if (!Array.isArray(items)) return invalid('must be an array');
  if (items.length === 0) return invalid('must have at least one entry');
  if (items.length > ITEMS_MAX) return invalid(`must have at most ${ITEMS_MAX} entries`);
  return { ok: true, items, unknown };
}

function toItem(
  facts: RequestFacts,
  read: ParsedRecord,
  { kind, checkTime }: BatchOptions,
  { nextId, quality }: WriteDeps,
): Item {
  const reject = (eventId: string, details: readonly ErrorDetail[]): Item => {
    quality.rejected(facts.tenantId, kind, FAIL_BAD_PARAMS, details);
    return { eventId, error: failBadParams(details) };
  };
  const parsed = checkTime ? checkTime(read, facts.acceptedAtMs) : read;
  if (!parsed.ok) return reject(parsed.id ?? nextId(), parsed.details);
  const record = toRecord(facts, kind, parsed, nextId);
  const encoded = encodeRecord(record, parsed.json);
  return encoded ? { eventId: record.id, encoded } : reject(record.id, [TOO_LARGE_DETAIL]);
}

/** Returns the indexes of the items that were accepted before. */
function knownRecords(items: readonly Item[], outcomes: readonly Outcome[]): string {
  const sent = items.flatMap(({ encoded }, index) => (encoded ? [index] : []));
  return indexRanges(sent.filter((_, i) => outcomes[i] === 'known'));
}

function toResults(items: readonly Item[], outcomes: readonly Outcome[], idMember: IdMember): ItemResult[] {
  let next = 0;
  return items.map((item) => {
    const { eventId } = item;
    return { eventId, error: item.encoded ? outcomeError(outcomes[next++]!, idMember) : item.error };
  });
}

/** Returns the `error` of a record's result; empty if the record was accepted. */
function outcomeError(outcome: Outcome, idMember: IdMember): string {
  switch (outcome) {
    case 'accepted':
    case 'known':
      return '';
    case 'conflict':
      return failConflict(idMember);
    case 'too-large':
      return failBadParams([TOO_LARGE_DETAIL]);
    case 'unavailable':
      return failUnavailable(idMember);
  }
}
