import { headerList, isHeaderList, isStorableText, toPairs } from '../headers.ts';
import type { OutgoingRecord, PublishFailure, PublishOutcome } from '../log.ts';
import type { AppendedRecord } from './sql/log-records.ts';

/**
 * One call of publish. All of its records are appended or none, except records that can never be
 * stored.
 */
export interface PublishCall {
  /** The tenant whose share of the publisher's memory the call holds. */
  readonly tenantId: string;
  readonly topic: string;
  /**
   * The records to send; emptied once the outcome is known, so that the queue does not keep them.
   */
  records: readonly AppendedRecord[];
  /** Bytes of keys, values and headers; small records count as a minimum size. */
  readonly bytes: number;
  /** The deadline by performance.now(), so that setting back the wall clock does not extend it. */
  readonly deadlineAtMs: number;
  settled: boolean;
  /** Whether a statement with these records is in flight. */
  inFlight: boolean;
  /**
   * Whether a statement with these records ended without an answer, and may have been committed.
   */
  maybeStored: boolean;
  /** Settles the call; does nothing if the call is already settled. */
  resolve(outcomes: CallOutcome): void;
}

/**
 * One offset per record (undefined if its partition does not exist), or the reason why the records
 * were not appended.
 */
export type CallOutcome =
  | { readonly offsets: readonly (bigint | undefined)[] }
  | { readonly failed: PublishFailure; readonly outcomeUnknown: boolean };

/** Equal to Kafka's max.message.bytes for our topics, so that both logs accept the same records. */
const RECORD_BYTES_MAX = 2 * 1024 * 1024;

/**
 * Minimum bytes that a record counts as. A smaller record costs a statement as much as one of this
 * size. So a statement of 4 MiB has at most 5000 records.
 */
const RECORD_BYTES_MIN = 840;

/** A call before it is queued. */
export interface PreparedCall {
  readonly records: AppendedRecord[];
  readonly bytes: number;
  /** Returns one outcome per record, in the order of the call, for the outcome of `records`. */
  outcomes(outcome: CallOutcome): PublishOutcome[];
}

/** Separates the records that can never be stored, and later records of the same partition. */
export function prepareCall(topic: string, outgoing: readonly OutgoingRecord[]): PreparedCall {
  const refused = outgoing.map(() => undefined) as (PublishFailure | undefined)[];
  const brokenPartitions = new Set<number>();
  const records: AppendedRecord[] = [];
  let bytes = 0;
  outgoing.forEach((record, index) => {
    const { key, headers } = toStorable(record);
    const size = Buffer.byteLength(record.key) + record.value.length + (headers?.length ?? 0);
    const tooLarge = size > RECORD_BYTES_MAX ? 'too-large' : undefined;
    const refusal = brokenPartitions.has(record.partition) ? 'unavailable' : tooLarge;
    if (refusal !== undefined) {
      refused[index] = refusal;
      brokenPartitions.add(record.partition);
      return;
    }
    bytes += Math.max(size, RECORD_BYTES_MIN);
    records.push({ topic, record, key, headers });
  });
  return { records, bytes, outcomes: (outcome) => outcomesOf(outgoing, refused, outcome) };
}

/**
 * Converts a record to storable columns. A key that a Postgres text cannot hold is stored as base64
 * in the headers; so are headers that are not an object of texts. Otherwise one such record would
 * fail all records of its statement.
 */
function toStorable({ key, headers }: OutgoingRecord): Pick<AppendedRecord, 'key' | 'headers'> {
  if (isStorableText(key) && !isHeaderList(headers)) {
    return { key: key.toString(), headers: headers === undefined ? null : JSON.stringify(headers) };
  }
  const pairs = toPairs(headerList(headers));
  return { key: '', headers: JSON.stringify([Buffer.from(key).toString('base64'), pairs]) };
}

function outcomesOf(
  outgoing: readonly OutgoingRecord[],
  refused: readonly (PublishFailure | undefined)[],
  outcome: CallOutcome,
): PublishOutcome[] {
  let appended = 0;
  return outgoing.map(({ partition }, index) => {
    const reason = refused[index];
    if (reason !== undefined) return { ok: false, reason, outcomeUnknown: false };
    if ('failed' in outcome)
      return { ok: false, reason: outcome.failed, outcomeUnknown: outcome.outcomeUnknown };
    const offset = outcome.offsets[appended++];
    // The partition does not exist.
    if (offset === undefined) return { ok: false, reason: 'unavailable', outcomeUnknown: false };
    return { ok: true, partition, offset };
  });
}

/** Resolves the calls of a statement with their offsets, which are in the order of the calls. */
export function settleAppended(
  calls: readonly PublishCall[],
  offsets: readonly (bigint | undefined)[],
): void {
  let from = 0;
  for (const call of calls) {
    const to = from + call.records.length;
    call.resolve({ offsets: offsets.slice(from, to) });
    from = to;
  }
}
