import type { OutgoingRecord, PublishFailure, PublishOutcome } from '../log.ts';
import { PublishBacklog } from '../publish-backlog.ts';

/** One call of `publish`, until each of its records has an outcome. */
export interface PublishCall {
  readonly entries: QueueEntry[];
  readonly outcomes: PublishOutcome[];
  readonly deadlineAtMs: number;
  unsettled: number;
  readonly resolve: (outcomes: PublishOutcome[]) => void;
}

/** One record of a call, until it has an outcome. */
export interface QueueEntry {
  readonly call: PublishCall;
  /** The tenant of the call. */
  readonly tenantId: string;
  /** Index of the record in the call. */
  readonly index: number;
  readonly record: OutgoingRecord;
  readonly bytes: number;
  readonly queue: PartitionQueue;
  /** Whether the entry is part of the request in flight for its partition. */
  inFlight: boolean;
  /** Whether an earlier attempt may have stored the record. */
  maybeStored: boolean;
  settled: boolean;
}

/** The records that wait for one partition. At most one request of a partition is in flight. */
export class PartitionQueue {
  readonly topic: string;
  readonly partition: number;
  inFlight = false;
  /** Consecutive failed attempts. */
  failures = 0;
  /** After a failure: the earliest time of the next attempt, by `performance.now()`. */
  notBeforeMs = 0;
  /**
   * Number of next entries that are sent one per request, because the leader refused them together.
   */
  isolated = 0;
  /**
   * Entries that were sent and not acknowledged, oldest first: they are sent before waiting
   * entries.
   */
  private unacknowledged: QueueEntry[] = [];
  private readonly backlog = new PublishBacklog<QueueEntry>();

  constructor(topic: string, partition: number) {
    this.topic = topic;
    this.partition = partition;
  }

  isEmpty(): boolean {
    return this.unacknowledged.length === 0 && this.backlog.isEmpty();
  }

  add(entry: QueueEntry): void {
    this.backlog.add(entry);
  }

  /** Removes and returns the next entries, up to `bytesMax` but at least one. */
  takeBatch(bytesMax: number): QueueEntry[] {
    const again = this.unacknowledged;
    if (again.length === 0) {
      // All entries that were refused together have an outcome.
      this.isolated = 0;
      return this.backlog.take(bytesMax);
    }
    if (this.isolated > 0) return again.splice(0, 1);
    this.unacknowledged = [];
    const bytes = again.reduce((sum, entry) => sum + entry.bytes, 0);
    return again.concat(this.backlog.take(bytesMax - bytes, 0));
  }

  /** Puts entries of the last batch back to the front. */
  putBack(entries: readonly QueueEntry[]): void {
    if (entries.length > 0) this.unacknowledged = entries.concat(this.unacknowledged);
  }

  drop(unwanted: (entry: QueueEntry) => boolean): void {
    this.unacknowledged = this.unacknowledged.filter((entry) => !unwanted(entry));
    this.backlog.drop(unwanted);
  }
}

/**
 * Gives an entry its outcome; the first one counts. The call resolves with the outcome of its last
 * entry.
 */
export function settle(entry: QueueEntry, outcome: PublishOutcome): void {
  if (entry.settled) return;
  entry.settled = true;
  const { call } = entry;
  call.outcomes[entry.index] = outcome;
  call.unsettled -= 1;
  if (call.unsettled === 0) call.resolve(call.outcomes);
}

/**
 * Fails an entry. The outcome is unknown if an attempt may have stored the record, or still may.
 */
export function fail(entry: QueueEntry, reason: PublishFailure): void {
  settle(entry, { ok: false, reason, outcomeUnknown: entry.maybeStored || entry.inFlight });
}

/** Fails an entry and all later entries of its call and partition, which must not overtake it. */
export function failFrom(entry: QueueEntry, reason: PublishFailure): void {
  fail(entry, reason);
  for (const later of entry.call.entries) {
    if (later.queue === entry.queue && later.index > entry.index) fail(later, 'unavailable');
  }
}
