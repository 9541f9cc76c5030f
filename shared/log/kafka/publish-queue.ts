import { isHeaderList } from '../headers.ts';
import type { OutgoingRecord, PublishFailure, PublishOutcome } from '../log.ts';
import type { MemoryShare } from '../publish-memory.ts';
import { createTenantLines, type TenantLines } from '../tenant-lines.ts';

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
  readonly share: MemoryShare;
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

/** What waits for one partition; at most one request of it is out at a time. */
export interface PartitionQueue {
  readonly topic: string;
  readonly partition: number;
  /** What was not acknowledged, oldest first: goes before anything that waits. */
  again: QueueEntry[];
  readonly lines: TenantLines<QueueEntry>;
  inFlight: boolean;
  /** Attempts that failed in a row. */
  failures: number;
  /** Not to be sent before, after a failure. */
  notBeforeMs: number;
  /** That many of the next entries go one a request, because the leader refused them together. */
  singly: number;
}

export function createPartitionQueue(topic: string, partition: number): PartitionQueue {
  return {
    topic,
    partition,
    again: [],
    lines: createTenantLines(),
    inFlight: false,
    failures: 0,
    notBeforeMs: 0,
    singly: 0,
  };
}

export function isEmpty(queue: PartitionQueue): boolean {
  return queue.again.length === 0 && queue.lines.isEmpty();
}

/** Takes what goes next off the queue, up to `bytesMax` but at least one entry. */
export function takeBatch(queue: PartitionQueue, bytesMax: number): QueueEntry[] {
  const { again } = queue;
  if (again.length === 0) {
    // Those that were refused together are gone, whatever became of them.
    queue.singly = 0;
    return queue.lines.take(bytesMax);
  }
  if (queue.singly > 0) return again.splice(0, 1);
  queue.again = [];
  const bytes = again.reduce((sum, entry) => sum + entry.bytes, 0);
  return again.concat(queue.lines.take(bytesMax - bytes, 0));
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
  const { headers = {} } = record;
  const pairs = isHeaderList(headers)
    ? headers.map(({ name, value }) => [name, value ?? ''] as const)
    : Object.entries(headers);
  for (const [name, value] of pairs) {
    bytes += HEADER_OVERHEAD_BYTES + Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  return bytes;
}

const RECORD_OVERHEAD_BYTES = 36;
const HEADER_OVERHEAD_BYTES = 10;
