import type { OutgoingRecord, PublishFailure, PublishOutcome } from './log.ts';

/** One call of publish, until each of its records has an outcome. */
export interface PublishCall {
  readonly entries: QueueEntry[];
  readonly outcomes: PublishOutcome[];
  readonly deadlineAtMs: number;
  unsettled: number;
  readonly resolve: (outcomes: PublishOutcome[]) => void;
}

/** One record on its way. */
export interface QueueEntry {
  readonly call: PublishCall;
  /** Its place in the call. */
  readonly index: number;
  readonly record: OutgoingRecord;
  readonly bytes: number;
  readonly queue: PartitionQueue;
  /** Part of the request that is out for its partition. */
  inFlight: boolean;
  /** An earlier attempt may have stored it. */
  maybeStored: boolean;
  settled: boolean;
}

/** What waits for one partition, oldest first; at most one request of it is out at a time. */
export interface PartitionQueue {
  readonly topic: string;
  readonly partition: number;
  entries: QueueEntry[];
  inFlight: boolean;
  /** Attempts that failed in a row. */
  failures: number;
  /** Not to be sent before, after a failure. */
  notBeforeMs: number;
  /** That many of the next entries go one a request, because the leader refused them together. */
  singly: number;
}

export function createPartitionQueue(topic: string, partition: number): PartitionQueue {
  return { topic, partition, entries: [], inFlight: false, failures: 0, notBeforeMs: 0, singly: 0 };
}

/** Takes the oldest entries off the queue, up to `bytesMax` but at least one. */
export function takeBatch(queue: PartitionQueue, bytesMax: number): QueueEntry[] {
  let count = 0;
  for (let bytes = 0; count < queue.entries.length; count++) {
    bytes += queue.entries[count]!.bytes;
    if (count > 0 && (bytes > bytesMax || queue.singly > 0)) break;
  }
  return queue.entries.splice(0, count);
}

/** Gives an entry its outcome; the first one counts. The call resolves with its last entry. */
export function settle(entry: QueueEntry, outcome: PublishOutcome): void {
  if (entry.settled) return;
  entry.settled = true;
  const { call } = entry;
  call.outcomes[entry.index] = outcome;
  call.unsettled -= 1;
  if (call.unsettled === 0) call.resolve(call.outcomes);
}

/** Fails an entry; its outcome is unknown when any attempt may have stored it, or still may. */
export function fail(entry: QueueEntry, reason: PublishFailure): void {
  settle(entry, { ok: false, reason, outcomeUnknown: entry.maybeStored || entry.inFlight });
}

/**
 * Upper bound of what a record takes inside a record batch: lengths as varints of five bytes, timestamp and offset.
 * Source: the record format, version 2, of Kafka's protocol guide.
 */
export function recordBytes(record: OutgoingRecord): number {
  let bytes = RECORD_OVERHEAD_BYTES + Buffer.byteLength(record.key) + record.value.length;
  for (const [name, value] of Object.entries(record.headers ?? {})) {
    bytes += HEADER_OVERHEAD_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  return bytes;
}

const RECORD_OVERHEAD_BYTES = 36;
const HEADER_OVERHEAD_BYTES = 10;
