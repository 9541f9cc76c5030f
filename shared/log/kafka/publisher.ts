import type { Logger } from '../../logging.ts';
import { TenantShares } from '../../tenant-shares.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { OutgoingRecord, Publisher, PublisherOptions, PublishFailure, PublishOutcome } from '../log.ts';
import { tenantOfKey } from '../partition.ts';
import { reportPublishQueue } from '../publish-metrics.ts';
import { ProduceLoop } from './produce-loop.ts';
import { BATCH_HEAD_BYTES, recordBytes } from './protocol/record-batch.ts';
import { fail, type PartitionQueue, type PublishCall } from './publish-queue.ts';
import type { ProduceTransport } from './transport.ts';

/** Topics take batches of 2 MiB (max.message.bytes). */
const RECORD_BYTES_MAX = 2 * 1_048_576 - BATCH_HEAD_BYTES;

/**
 * Publishes to a Kafka cluster. Reserves memory for calls and gives each of their records an
 * outcome by the deadline; {@link ProduceLoop} sends them. If more records wait for a partition
 * than fit into a request, tenants are served round-robin.
 */
export class KafkaPublisher implements Publisher {
  private readonly deadlineMs: number;
  private readonly memory: TenantShares;
  private readonly loop: ProduceLoop;
  private readonly calls = new CallDeadlines<PublishCall>((due) => this.expire(due));
  private isClosed = false;
  private onDrained: (() => void) | undefined;

  constructor(transport: ProduceTransport, options: PublisherOptions, logger: Logger) {
    this.deadlineMs = options.deadlineMs;
    this.memory = new TenantShares({ max: options.bufferedBytesMax, firstTakesAll: true });
    reportPublishQueue(this.memory);
    this.loop = new ProduceLoop(transport, this.memory, logger);
  }

  publish(topic: string, records: readonly OutgoingRecord[]): Promise<PublishOutcome[]> {
    if (records.length === 0) return Promise.resolve([]);
    if (this.isClosed) return Promise.resolve(records.map(() => notSent('closed')));
    const { sizes, bytes, refusals } = admit(records);
    const tenantId = tenantOfKey(records[0]!.key);
    const isAdmitted = this.memory.take(tenantId, bytes);
    const pending = isAdmitted ? UNAVAILABLE : QUEUE_FULL;
    const outcomes = records.map((_, index) => refusals.get(index) ?? pending);
    if (!isAdmitted || refusals.size === records.length) return Promise.resolve(outcomes);
    return new Promise((resolve) => {
      const call: PublishCall = {
        entries: [],
        outcomes,
        deadlineAtMs: performance.now() + this.deadlineMs,
        unsettled: records.length - refusals.size,
        resolve: (settled) => {
          this.calls.delete(call);
          if (this.calls.size === 0) this.onDrained?.();
          resolve(settled);
        },
      };
      this.calls.add(call);
      records.forEach((record, index) => {
        if (refusals.has(index)) return;
        const entry = {
          call,
          tenantId,
          index,
          record,
          bytes: sizes[index]!,
          queue: this.loop.queueOf(topic, record.partition),
          inFlight: false,
          maybeStored: false,
          settled: false,
        };
        call.entries.push(entry);
        this.loop.add(entry);
      });
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const drained = new Promise<void>((resolve) => {
      if (this.calls.size === 0) resolve();
      else this.onDrained = resolve;
    });
    await this.loop.close(drained);
  }

  private expire(due: readonly PublishCall[]): void {
    const touched = new Set<PartitionQueue>();
    for (const call of due) {
      for (const entry of call.entries) {
        touched.add(entry.queue);
        fail(entry, 'timeout');
      }
    }
    for (const queue of touched) this.loop.dropSettled(queue);
  }
}

/**
 * Returns the sizes of a call's records, the sum of those that are sent, and the outcomes of
 * records that are too large or follow such a record.
 */
function admit(records: readonly OutgoingRecord[]): {
  sizes: number[];
  bytes: number;
  refusals: ReadonlyMap<number, PublishOutcome>;
} {
  const sizes = records.map(recordBytes);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (bytes <= RECORD_BYTES_MAX) return { sizes, bytes, refusals: NO_REFUSALS };
  const refusals = new Map<number, PublishOutcome>();
  const brokenPartitions = new Set<number>();
  let sentBytes = 0;
  records.forEach(({ partition }, index) => {
    if (brokenPartitions.has(partition)) refusals.set(index, UNAVAILABLE);
    else if (sizes[index]! <= RECORD_BYTES_MAX) sentBytes += sizes[index]!;
    else {
      brokenPartitions.add(partition);
      refusals.set(index, notSent('too-large'));
    }
  });
  return { sizes, bytes: sentBytes, refusals };
}

const NO_REFUSALS: ReadonlyMap<number, PublishOutcome> = new Map();
const notSent = (reason: PublishFailure): PublishOutcome => ({ ok: false, reason, outcomeUnknown: false });
const UNAVAILABLE = notSent('unavailable');
const QUEUE_FULL = notSent('queue-full');
