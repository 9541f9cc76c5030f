import type { OutgoingRecord, PublishFailure, PublishOutcome } from '../log.ts';
import type { MemoryShare } from '../publish-memory.ts';
import type { AppendedRange, AppendedRecord } from './sql/append.ts';

/** One call of publish: its records go into the log together or not at all, but for those that could never go. */
export interface PublishCall {
  /** Of the publisher's memory, of which its tenant holds it. */
  readonly share: MemoryShare;
  readonly topic: string;
  /** What is to be sent; emptied once the outcome is known, so that a waiting queue holds no more than it must. */
  records: readonly AppendedRecord[];
  /** Of keys, values and headers, small records rounded up. */
  readonly bytes: number;
  /** Of performance.now(): with the wall clock set back, nothing may wait longer for it. */
  readonly deadlineAtMs: number;
  settled: boolean;
  /** A statement with these records was sent and has not answered. */
  inFlight: boolean;
  /** A statement with these records ended without an answer: it may have been committed. */
  maybeStored: boolean;
  /** Settles what is not settled yet. */
  resolve(outcomes: CallOutcome): void;
}

/** Where the records went, by partition, or why they did not. */
export type CallOutcome =
  | { readonly appended: ReadonlyMap<number, bigint | undefined> }
  | { readonly failed: PublishFailure; readonly outcomeUnknown: boolean };

/** As Kafka's max.message.bytes for our topics, so that what one log takes the other does too. */
const RECORD_BYTES_MAX = 2 * 1024 * 1024;

/** A small record costs a statement as much as one of this size: so 4 MiB are 5000 records at most. */
const RECORD_BYTES_MIN = 840;

/** What must be known of a call before it is queued. */
export interface PreparedCall {
  readonly records: AppendedRecord[];
  readonly bytes: number;
  /** One outcome a record, in the order of the call, when those of `records` ended this way. */
  outcomes(outcome: CallOutcome): PublishOutcome[];
}

/** Sets aside what can never be stored, and in its partition everything after it. */
export function prepareCall(topic: string, outgoing: readonly OutgoingRecord[]): PreparedCall {
  const refused = outgoing.map(() => undefined) as (PublishFailure | undefined)[];
  const brokenPartitions = new Set<number>();
  const records: AppendedRecord[] = [];
  let bytes = 0;
  outgoing.forEach((record, index) => {
    const headers = record.headers === undefined ? null : JSON.stringify(record.headers);
    const size = Buffer.byteLength(record.key) + record.value.length + (headers?.length ?? 0);
    const refusal = brokenPartitions.has(record.partition) ? 'unavailable' : refusalOf(record, size);
    if (refusal !== undefined) {
      refused[index] = refusal;
      brokenPartitions.add(record.partition);
      return;
    }
    bytes += Math.max(size, RECORD_BYTES_MIN);
    records.push({ topic, partition: record.partition, key: record.key, value: record.value, headers });
  });
  return { records, bytes, outcomes: (outcome) => outcomesOf(outgoing, refused, outcome) };
}

function refusalOf(record: OutgoingRecord, size: number): PublishFailure | undefined {
  if (size > RECORD_BYTES_MAX) return 'too-large';
  // Postgres' text cannot hold it, and one such record would fail all that are sent with it.
  return record.key.includes('\0') ? 'unavailable' : undefined;
}

function outcomesOf(
  outgoing: readonly OutgoingRecord[],
  refused: readonly (PublishFailure | undefined)[],
  outcome: CallOutcome,
): PublishOutcome[] {
  const next = new Map('appended' in outcome ? outcome.appended : []);
  return outgoing.map(({ partition }, index) => {
    const reason = refused[index];
    if (reason !== undefined) return { ok: false, reason, outcomeUnknown: false };
    if ('failed' in outcome)
      return { ok: false, reason: outcome.failed, outcomeUnknown: outcome.outcomeUnknown };
    const offset = next.get(partition);
    // No such partition.
    if (offset === undefined) return { ok: false, reason: 'unavailable', outcomeUnknown: false };
    next.set(partition, offset + 1n);
    return { ok: true, partition, offset };
  });
}

/** Tells each call of a statement where its records went: a range holds those of all calls, in their order. */
export function settleAppended(calls: readonly PublishCall[], ranges: readonly AppendedRange[]): void {
  const next = new Map(ranges.map((range) => [`${range.partition} ${range.topic}`, range.first]));
  for (const call of calls) {
    const appended = new Map<number, bigint | undefined>();
    for (const { partition } of call.records) {
      const name = `${partition} ${call.topic}`;
      const offset = next.get(name);
      if (!appended.has(partition)) appended.set(partition, offset);
      if (offset !== undefined) next.set(name, offset + 1n);
    }
    call.resolve({ appended });
  }
}
