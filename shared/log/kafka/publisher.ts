import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { createRateLimitedLog } from '../../rate-limited-log.ts';
import type { OutgoingRecord, Publisher, PublisherOptions, PublishFailure, PublishOutcome } from '../log.ts';
import { tenantOfKey } from '../partition.ts';
import { createPublishMemory } from '../publish-memory.ts';
import {
  createPartitionQueue,
  fail,
  isEmpty,
  type PartitionQueue,
  type PublishCall,
  type QueueEntry,
  recordBytes,
  settle,
  takeBatch,
} from './publish-queue.ts';
import type { ProduceAnswer, ProduceTransport } from './transport.ts';

/** Bytes of one partition in one request, unless a single record is larger. */
const BATCH_BYTES_MAX = 1_048_576;
/** Bytes of all partitions in one request: a leader of many busy partitions gets several requests, one after another. */
const REQUEST_BYTES_MAX = 8 * 1_048_576;
/** Topics take batches of 2 MiB (max.message.bytes); a batch's header is 61 bytes. */
const RECORD_BYTES_MAX = 2 * 1_048_576 - 61;
const RETRY_MIN_MS = 20;
const RETRY_MAX_MS = 1_000;

/**
 * The publisher on a Kafka cluster. What is published while a request to a leader is out gathers, and goes with the
 * next one: at most one request a leader and one a partition are out, so a partition's records arrive in order, and
 * what the leader did not acknowledge by name is sent again before anything newer of its partition. Where more waits for a
 * partition than goes into a request, tenants take turns.
 */
export function createKafkaPublisher(
  transport: ProduceTransport,
  options: PublisherOptions,
  logger: Logger,
): Publisher {
  const queues = new Map<string, PartitionQueue>();
  /** Queues that have something to send and nothing in flight; those that waited longest first. */
  const waiting = new Set<PartitionQueue>();
  const calls = new Set<PublishCall>();
  const busyLeaders = new Set<number>();
  const memory = createPublishMemory(options.bufferedBytesMax);
  const limited = createRateLimitedLog(logger);
  let closed = false;
  let pumpScheduled = false;
  let wakeTimer: NodeJS.Timeout | undefined;
  let deadlineTimer: NodeJS.Timeout | undefined;
  let refreshing = false;
  let refreshProblem: string | undefined;
  /** Times in a row that the leaders were asked and some partition has none. */
  let refreshes = 0;
  let refreshNotBeforeMs = 0;
  let drained: (() => void) | undefined;

  function publish(topic: string, records: readonly OutgoingRecord[]): Promise<PublishOutcome[]> {
    if (records.length === 0) return Promise.resolve([]);
    if (closed) return Promise.resolve(records.map(() => notSent('closed')));
    const { sizes, refusals } = admit(records);
    const bytes = sizes.reduce((sum, size, index) => (refusals.has(index) ? sum : sum + size), 0);
    const share = memory.take(tenantOfKey(records[0]!.key), bytes);
    if (share === undefined) {
      return Promise.resolve(records.map((_, index) => refusals.get(index) ?? notSent('queue-full')));
    }
    return new Promise((resolve) => {
      const call: PublishCall = {
        entries: [],
        outcomes: records.map((_, index) => refusals.get(index) ?? notSent('unavailable')),
        deadlineAtMs: performance.now() + options.deadlineMs,
        unsettled: records.length - refusals.size,
        resolve: (outcomes) => {
          forgetCall(call);
          resolve(outcomes);
        },
      };
      if (call.unsettled === 0) {
        resolve(call.outcomes);
        return;
      }
      calls.add(call);
      records.forEach((record, index) => {
        if (refusals.has(index)) return;
        const queue = queueOf(topic, record.partition);
        const state = { inFlight: false, maybeStored: false, settled: false };
        enqueue({ call, share, index, record, bytes: sizes[index]!, queue, ...state });
      });
      armDeadline();
      schedulePump();
    });
  }

  function enqueue(entry: QueueEntry): void {
    const { call, queue } = entry;
    call.entries.push(entry);
    queue.lines.add(entry);
    if (!queue.inFlight) waiting.add(queue);
  }

  function queueOf(topic: string, partition: number): PartitionQueue {
    const key = `${topic}/${partition}`;
    const queue = queues.get(key) ?? createPartitionQueue(topic, partition);
    queues.set(key, queue);
    return queue;
  }

  function forgetCall(call: PublishCall): void {
    calls.delete(call);
    if (calls.size === 0) {
      clearTimeout(deadlineTimer);
      deadlineTimer = undefined;
      drained?.();
    }
  }

  /** In the next turn of the event loop, so that what is published in this one goes together. */
  function schedulePump(): void {
    if (pumpScheduled) return;
    pumpScheduled = true;
    setImmediate(() => {
      pumpScheduled = false;
      pump();
    });
  }

  function pump(): void {
    const nowMs = performance.now();
    const byLeader = new Map<number, PartitionQueue[]>();
    let wakeAtMs = Number.POSITIVE_INFINITY;
    let leaderMissing = false;
    for (const queue of waiting) {
      if (queue.notBeforeMs > nowMs) {
        wakeAtMs = Math.min(wakeAtMs, queue.notBeforeMs);
        continue;
      }
      const leader = transport.leaderOf(queue.topic, queue.partition);
      if (leader === undefined) leaderMissing = true;
      else if (!busyLeaders.has(leader)) byLeader.set(leader, [...(byLeader.get(leader) ?? []), queue]);
    }
    for (const [leader, ready] of byLeader) void send(leader, ready);
    if (!leaderMissing) refreshes = 0;
    else if (!refreshing) {
      if (refreshNotBeforeMs > nowMs) wakeAtMs = Math.min(wakeAtMs, refreshNotBeforeMs);
      else void refreshLeaders();
    }
    armWake(wakeAtMs, nowMs);
  }

  async function send(leader: number, ready: readonly PartitionQueue[]): Promise<void> {
    const batches: QueueEntry[][] = [];
    let bytes = 0;
    for (const queue of ready) {
      if (bytes >= REQUEST_BYTES_MAX) break;
      const batch = takeBatch(queue, BATCH_BYTES_MAX);
      for (const entry of batch) {
        entry.inFlight = true;
        bytes += entry.bytes;
      }
      queue.inFlight = true;
      waiting.delete(queue);
      batches.push(batch);
    }
    busyLeaders.add(leader);
    const answers = await transport.produce(
      leader,
      batches.map((batch) => ({
        topic: batch[0]!.queue.topic,
        partition: batch[0]!.queue.partition,
        records: batch.map((entry) => entry.record),
      })),
    );
    busyLeaders.delete(leader);
    batches.forEach((batch, index) => {
      takeAnswer(batch, answers[index]!);
    });
    reportFailures(leader, answers);
    schedulePump();
  }

  function takeAnswer(batch: readonly QueueEntry[], answer: ProduceAnswer): void {
    const queue = batch[0]!.queue;
    queue.inFlight = false;
    for (const entry of batch) entry.inFlight = false;
    if (answer.kind === 'stored') {
      queue.failures = 0;
      queue.singly = Math.max(0, queue.singly - batch.length);
      batch.forEach((entry, place) => {
        settle(entry, { ok: true, partition: queue.partition, offset: answer.baseOffset + BigInt(place) });
      });
    } else {
      takeFailure(queue, batch, answer);
    }
    const unsettled = batch.filter((entry) => !forgetSettled(entry));
    if (unsettled.length > 0) queue.again = unsettled.concat(queue.again);
    if (!isEmpty(queue)) waiting.add(queue);
  }

  /** What is left unsettled here is sent again, first of its partition. */
  function takeFailure(
    queue: PartitionQueue,
    batch: readonly QueueEntry[],
    answer: Exclude<ProduceAnswer, { kind: 'stored' }>,
  ): void {
    if (answer.maybeStored) for (const entry of batch) entry.maybeStored = true;
    if (answer.kind === 'unanswered' || answer.retryable) {
      queue.failures += 1;
      queue.notBeforeMs = performance.now() + retryDelayMs(queue.failures);
      transport.forget(queue.topic, queue.partition);
    } else if (batch.length > 1) {
      // One record of the batch is at fault, and a leader says seldom which one.
      queue.singly = batch.length;
    } else {
      queue.singly = Math.max(0, queue.singly - 1);
      failFrom(batch[0]!, answer.type === 'MESSAGE_TOO_LARGE' ? 'too-large' : 'unavailable');
      purge(queue);
    }
  }

  /** Fails an entry, and with it all later ones of its call and partition: they must not overtake it. */
  function failFrom(entry: QueueEntry, reason: PublishFailure): void {
    fail(entry, reason);
    for (const later of entry.call.entries) {
      if (later.queue === entry.queue && later.index > entry.index) fail(later, 'unavailable');
    }
  }

  /** Takes settled entries out of what waits. */
  function purge(queue: PartitionQueue): void {
    queue.again = queue.again.filter((entry) => !forgetSettled(entry));
    queue.lines.drop(forgetSettled);
    if (isEmpty(queue)) waiting.delete(queue);
  }

  /** Whether an entry is settled; then it gives its memory back, so that it must not be kept. */
  function forgetSettled(entry: QueueEntry): boolean {
    if (entry.settled) memory.give(entry.share, entry.bytes);
    return entry.settled;
  }

  /** Every call has the same time, so the oldest one is due first. */
  function armDeadline(): void {
    const [oldest] = calls;
    if (deadlineTimer !== undefined || oldest === undefined) return;
    deadlineTimer = setTimeout(expire, Math.max(0, oldest.deadlineAtMs - performance.now()));
  }

  function expire(): void {
    deadlineTimer = undefined;
    const nowMs = performance.now();
    const touched = new Set<PartitionQueue>();
    for (const call of calls) {
      if (call.deadlineAtMs > nowMs) break;
      for (const entry of call.entries) {
        touched.add(entry.queue);
        fail(entry, 'timeout');
      }
    }
    for (const queue of touched) purge(queue);
    armDeadline();
  }

  async function refreshLeaders(): Promise<void> {
    refreshing = true;
    let reason: string | undefined;
    try {
      await transport.refresh([...new Set([...queues.values()].map((queue) => queue.topic))]);
    } catch (error) {
      reason = errorMessage(error);
    }
    // Once for each new reason: it is tried every second.
    if (reason !== undefined && reason !== refreshProblem && !closed) {
      logger.warn({ reason }, 'Kafka cannot be asked who leads the partitions');
    }
    refreshProblem = reason;
    refreshing = false;
    refreshes += 1;
    refreshNotBeforeMs = performance.now() + retryDelayMs(refreshes);
    schedulePump();
  }

  function reportFailures(leader: number, answers: readonly ProduceAnswer[]): void {
    const failures = answers.filter((answer) => answer.kind !== 'stored');
    const [first] = failures;
    if (first === undefined || closed) return;
    const cause = first.kind === 'refused' ? first.type : first.cause;
    const fields = { leader, partitions: failures.length, cause };
    limited.warn(fields, 'Kafka did not acknowledge; sending again', String(leader));
  }

  function armWake(wakeAtMs: number, nowMs: number): void {
    clearTimeout(wakeTimer);
    wakeTimer = wakeAtMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(pump, wakeAtMs - nowMs);
  }

  async function close(): Promise<void> {
    closed = true;
    if (calls.size > 0) {
      await new Promise<void>((resolve) => {
        drained = resolve;
      });
    }
    clearTimeout(wakeTimer);
    transport.close();
  }

  return { publish, close };
}

/** The sizes of a call's records, and those that are refused at once: too large, or behind one that is. */
function admit(records: readonly OutgoingRecord[]): {
  sizes: number[];
  refusals: Map<number, PublishOutcome>;
} {
  const sizes = records.map(recordBytes);
  const refusals = new Map<number, PublishOutcome>();
  const brokenPartitions = new Set<number>();
  records.forEach(({ partition }, index) => {
    if (brokenPartitions.has(partition)) refusals.set(index, notSent('unavailable'));
    else if (sizes[index]! > RECORD_BYTES_MAX) {
      brokenPartitions.add(partition);
      refusals.set(index, notSent('too-large'));
    }
  });
  return { sizes, refusals };
}

const notSent = (reason: PublishFailure): PublishOutcome => ({ ok: false, reason, outcomeUnknown: false });

/** 20 ms, doubled with each failure up to a second, a quarter of it at random. */
function retryDelayMs(failures: number): number {
  const delayMs = Math.min(RETRY_MIN_MS * 2 ** Math.min(failures - 1, 10), RETRY_MAX_MS);
  return delayMs * (0.75 + Math.random() * 0.25);
}
