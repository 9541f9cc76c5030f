import { backoffMs } from '../../async.ts';
import type { Logger } from '../../logging.ts';
import { createRateLimitedLog, type RateLimitedLog } from '../../rate-limited-log.ts';
import type { TenantShares } from '../../tenant-shares.ts';
import { observeBatch } from '../publish-metrics.ts';
import { LeaderRefresh } from './leader-refresh.ts';
import type { ProduceAnswer, ProduceBatch } from './protocol/produce.ts';
import { failFrom, PartitionQueue, type QueueEntry, settle } from './publish-queue.ts';
import type { ProduceTransport } from './transport.ts';

/** Maximum bytes of one partition in one request, unless a single record is larger. */
const BATCH_BYTES_MAX = 1_048_576;
/**
 * Maximum bytes of all partitions in one request. A leader of many busy partitions receives several
 * requests, one after another.
 */
const REQUEST_BYTES_MAX = 8 * 1_048_576;
const RETRY_BACKOFF = { minMs: 20, maxMs: 1_000 };

/** The entries of one partition in one request. */
interface Batch {
  readonly queue: PartitionQueue;
  readonly entries: readonly QueueEntry[];
}

/**
 * Sends the queued records of partitions to their leaders. At most one request per leader and one
 * per partition is in flight. So the records of a partition arrive in order, and records published
 * meanwhile are sent with the next request. Records that were not individually acknowledged are
 * sent again before newer ones of their partition.
 */
export class ProduceLoop {
  private readonly transport: ProduceTransport;
  private readonly memory: TenantShares;
  private readonly log: RateLimitedLog;
  private readonly leaders: LeaderRefresh;
  /** The queues by topic and partition. */
  private readonly queues = new Map<string, Map<number, PartitionQueue>>();
  /** Queues with unsent entries and nothing in flight, in the order in which they began to wait. */
  private readonly waiting = new Set<PartitionQueue>();
  private readonly busyLeaders = new Set<number>();
  private isScheduled = false;
  private isClosing = false;
  private wakeTimer: NodeJS.Timeout | undefined;

  constructor(transport: ProduceTransport, memory: TenantShares, logger: Logger) {
    this.transport = transport;
    this.memory = memory;
    this.log = createRateLimitedLog(logger);
    this.leaders = new LeaderRefresh(transport, logger);
  }

  queueOf(topic: string, partition: number): PartitionQueue {
    let ofTopic = this.queues.get(topic);
    if (!ofTopic) {
      ofTopic = new Map();
      this.queues.set(topic, ofTopic);
    }
    let queue = ofTopic.get(partition);
    if (!queue) {
      queue = new PartitionQueue(topic, partition);
      ofTopic.set(partition, queue);
    }
    return queue;
  }

  add(entry: QueueEntry): void {
    const { queue } = entry;
    queue.add(entry);
    if (!queue.inFlight) this.waiting.add(queue);
    this.schedule();
  }

  /** Drops the settled entries of a queue that are not in flight. */
  dropSettled(queue: PartitionQueue): void {
    queue.drop((entry) => this.releaseSettled(entry));
    if (queue.isEmpty()) this.waiting.delete(queue);
  }

  /**
   * Continues to send until `drained` resolves, without logging failures; then closes the
   * transport.
   */
  async close(drained: Promise<void>): Promise<void> {
    this.isClosing = true;
    await drained;
    clearTimeout(this.wakeTimer);
    this.transport.close();
  }

  /**
   * Schedules a run for the next turn of the event loop, so that records published in the same turn
   * share a request.
   */
  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => {
      this.isScheduled = false;
      this.run();
    });
  }

  private run(): void {
    const nowMs = performance.now();
    const readyByLeader = new Map<number, PartitionQueue[]>();
    let wakeAtMs = Number.POSITIVE_INFINITY;
    let isLeaderMissing = false;
    for (const queue of this.waiting) {
      if (queue.notBeforeMs > nowMs) {
        wakeAtMs = Math.min(wakeAtMs, queue.notBeforeMs);
        continue;
      }
      const leader = this.transport.leaderOf(queue.topic, queue.partition);
      if (leader === undefined) isLeaderMissing = true;
      else if (!this.busyLeaders.has(leader)) {
        readyByLeader.set(leader, [...(readyByLeader.get(leader) ?? []), queue]);
      }
    }
    for (const [leader, ready] of readyByLeader) void this.send(leader, ready);
    if (!isLeaderMissing) this.leaders.reset();
    else if (this.leaders.isDue(nowMs)) void this.refreshLeaders();
    else wakeAtMs = Math.min(wakeAtMs, this.leaders.dueAtMs());
    this.wakeAt(wakeAtMs, nowMs);
  }

  private wakeAt(wakeAtMs: number, nowMs: number): void {
    clearTimeout(this.wakeTimer);
    this.wakeTimer =
      wakeAtMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => this.run(), wakeAtMs - nowMs);
  }

  private async refreshLeaders(): Promise<void> {
    await this.leaders.run([...this.queues.keys()], () => this.isClosing);
    this.schedule();
  }

  private async send(leader: number, ready: readonly PartitionQueue[]): Promise<void> {
    const batches = this.takeBatches(ready);
    this.busyLeaders.add(leader);
    const answers = await this.transport.produce(leader, batches.map(toProduceBatch));
    this.busyLeaders.delete(leader);
    batches.forEach((batch, index) => {
      this.takeAnswer(batch, answers[index]!);
    });
    // The next request is sent before the answered calls continue, so that the leader works
    // meanwhile.
    this.run();
    this.reportFailures(leader, answers);
  }

  private takeBatches(ready: readonly PartitionQueue[]): Batch[] {
    const batches: Batch[] = [];
    let bytes = 0;
    for (const queue of ready) {
      if (bytes >= REQUEST_BYTES_MAX) break;
      const entries = queue.takeBatch(BATCH_BYTES_MAX);
      const bytesBefore = bytes;
      for (const entry of entries) {
        entry.inFlight = true;
        bytes += entry.bytes;
      }
      observeBatch(queue.topic, entries.length, bytes - bytesBefore);
      queue.inFlight = true;
      this.waiting.delete(queue);
      batches.push({ queue, entries });
    }
    return batches;
  }

  private takeAnswer({ queue, entries }: Batch, answer: ProduceAnswer): void {
    queue.inFlight = false;
    for (const entry of entries) entry.inFlight = false;
    if (answer.kind === 'stored') {
      queue.failures = 0;
      queue.isolated = Math.max(0, queue.isolated - entries.length);
      entries.forEach((entry, index) => {
        settle(entry, { ok: true, partition: queue.partition, offset: answer.baseOffset + BigInt(index) });
      });
    } else {
      this.takeFailure({ queue, entries }, answer);
    }
    queue.putBack(entries.filter((entry) => !this.releaseSettled(entry)));
    if (!queue.isEmpty()) this.waiting.add(queue);
  }

  /** Handles the failure of a batch. Entries that stay unsettled are sent again. */
  private takeFailure({ queue, entries }: Batch, answer: Exclude<ProduceAnswer, { kind: 'stored' }>): void {
    if (answer.maybeStored) for (const entry of entries) entry.maybeStored = true;
    if (answer.kind === 'unanswered' || answer.retryable) {
      queue.failures += 1;
      queue.notBeforeMs = performance.now() + backoffMs(queue.failures, RETRY_BACKOFF);
      this.transport.forget(queue.topic, queue.partition);
    } else if (entries.length > 1) {
      // The leader refused one record of the batch, and leaders rarely name that record.
      queue.isolated = entries.length;
    } else {
      queue.isolated = Math.max(0, queue.isolated - 1);
      failFrom(entries[0]!, answer.type === 'MESSAGE_TOO_LARGE' ? 'too-large' : 'unavailable');
      this.dropSettled(queue);
    }
  }

  /**
   * Releases the memory of a settled entry, which the caller must then drop. Returns whether the
   * entry is settled.
   */
  private releaseSettled(entry: QueueEntry): boolean {
    if (entry.settled) this.memory.give(entry.tenantId, entry.bytes);
    return entry.settled;
  }

  private reportFailures(leader: number, answers: readonly ProduceAnswer[]): void {
    const failures = answers.filter((answer) => answer.kind !== 'stored');
    const [first] = failures;
    if (first === undefined || this.isClosing) return;
    const cause = first.kind === 'refused' ? first.type : first.cause;
    const fields = { leader, partitions: failures.length, cause };
    this.log.warn(fields, 'produce failed, retrying', String(leader));
  }
}

function toProduceBatch({ queue, entries }: Batch): ProduceBatch {
  return {
    topic: queue.topic,
    partition: queue.partition,
    records: entries.map(({ record }) => record),
    bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}
