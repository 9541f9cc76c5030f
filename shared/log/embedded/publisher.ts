import { type Backoff, backoffMs, sleep } from '../../async.ts';
import type { Clock } from '../../clock.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { noteRequest } from '../../map-in-slices.ts';
import type { Pool } from '../../postgres/pool.ts';
import { isTransient, sqlStateOf } from '../../postgres/sqlstate.ts';
import { createRateLimitedLog, type RateLimitedLog } from '../../rate-limited-log.ts';
import { TenantShares } from '../../tenant-shares.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { OutgoingRecord, Publisher, PublisherOptions, PublishOutcome } from '../log.ts';
import { tenantOfKey } from '../partition.ts';
import { PublishBacklog } from '../publish-backlog.ts';
import { observeBatch, reportPublishQueue } from '../publish-metrics.ts';
import { countAppendFailure } from './append-metrics.ts';
import { type AppendSession, createAppendSession } from './append-session.ts';
import {
  type CallOutcome,
  type PreparedCall,
  type PublishCall,
  prepareCall,
  settleAppended,
} from './call.ts';
import type { RecentRecords } from './recent-records.ts';
import type { Appended } from './sql/log-records.ts';
import type { BoundsWatch } from './watch.ts';

export interface PublisherContext extends PublisherOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watch: BoundsWatch;
  readonly recent: RecentRecords;
}

/**
 * A statement takes whole calls up to about this size; a larger call has a statement of its own.
 */
const STATEMENT_BYTES_MAX = 4 * 1024 * 1024;
/**
 * Maximum milliseconds for which a statement waits for more calls, while each turn of the event
 * loop brings some: a statement of 60 records costs little more than one of 15.
 */
const GATHER_MS_MAX = 5;
/**
 * Calls for which a statement waits at most. With 64 callers, half of them are served while the
 * records of the others are appended, so that the process does not wait for Postgres.
 */
const GATHER_CALLS_MAX = 32;
const BACKOFF: Backoff = { minMs: 25, maxMs: 1000 };

/**
 * Appends the records of concurrent callers with one statement at a time. While a statement is in
 * flight, calls are collected for the next statement. If more calls wait than fit into a statement,
 * tenants are served round-robin. A statement without an answer is retried within the deadline,
 * before newer records. If the first attempt was stored after all, the log contains its records
 * twice, and consumers deduplicate them by id.
 */
export class EmbeddedPublisher implements Publisher {
  private readonly watch: BoundsWatch;
  private readonly recent: RecentRecords;
  private readonly deadlineMs: number;
  private readonly limited: RateLimitedLog;
  private readonly session: AppendSession;
  private readonly memory: TenantShares;
  private readonly queue = new PublishBacklog<PublishCall>();
  private readonly open = new CallDeadlines<PublishCall>((due) => {
    for (const call of due) {
      call.resolve({ failed: 'timeout', outcomeUnknown: call.inFlight || call.maybeStored });
    }
  });
  /** Number of calls that were ever queued, and of those that were taken from the queue. */
  private calls = 0;
  private taken = 0;
  private closed = false;
  private draining: Promise<void> | undefined;

  constructor(context: PublisherContext) {
    this.watch = context.watch;
    this.recent = context.recent;
    this.deadlineMs = context.deadlineMs;
    this.limited = createRateLimitedLog(context.logger);
    this.session = createAppendSession(context.pool, context.clock);
    this.memory = new TenantShares({ max: context.bufferedBytesMax, firstTakesAll: true });
    reportPublishQueue(this.memory);
  }

  async publish(topic: string, outgoing: readonly OutgoingRecord[]): Promise<PublishOutcome[]> {
    const prepared = prepareCall(topic, outgoing);
    if (this.closed) return prepared.outcomes({ failed: 'closed', outcomeUnknown: false });
    if (prepared.records.length === 0) return prepared.outcomes({ offsets: [] });
    const tenantId = tenantOfKey(outgoing[0]!.key);
    if (!this.memory.take(tenantId, prepared.bytes))
      return prepared.outcomes({ failed: 'queue-full', outcomeUnknown: false });
    return prepared.outcomes(await this.enqueue(topic, prepared, tenantId));
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.draining;
  }

  private enqueue(topic: string, { records, bytes }: PreparedCall, tenantId: string): Promise<CallOutcome> {
    return new Promise((resolve) => {
      const call: PublishCall = {
        tenantId,
        topic,
        records,
        bytes,
        deadlineAtMs: performance.now() + this.deadlineMs,
        settled: false,
        inFlight: false,
        maybeStored: false,
        resolve: (outcome) => {
          if (call.settled) return;
          call.settled = true;
          this.open.delete(call);
          // A call in flight keeps its memory until the statement ends.
          if (!call.inFlight) this.release(call);
          resolve(outcome);
        },
      };
      this.open.add(call);
      this.queue.add(call);
      this.calls += 1;
      noteRequest();
      this.draining ??= this.drain();
    });
  }

  private release(call: PublishCall): void {
    this.memory.give(call.tenantId, call.bytes);
    call.records = [];
  }

  private async drain(): Promise<void> {
    while (!this.queue.isEmpty()) {
      await this.gather();
      const calls = this.queue.take(STATEMENT_BYTES_MAX);
      this.taken += calls.length;
      await this.appendCalls(calls);
    }
    this.draining = undefined;
  }

  /** Waits as long as each turn of the event loop brings more calls, but only for a short time. */
  private async gather(): Promise<void> {
    const endMs = performance.now() + GATHER_MS_MAX;
    let calls: number;
    do {
      calls = this.calls;
      await new Promise((resolve) => setImmediate(resolve));
    } while (this.calls > calls && this.calls - this.taken < GATHER_CALLS_MAX && performance.now() < endMs);
  }

  /** Retries the append until it succeeds or none of the calls waits for it any more. */
  private async appendCalls(calls: readonly PublishCall[]): Promise<void> {
    for (let failures = 1; ; failures++) {
      const waiting = calls.filter((call) => !call.settled);
      if (waiting.length === 0) return;
      const failure = await this.appendOnce(waiting);
      if (failure === undefined) return;
      countAppendFailure(failure);
      this.limited.warn({ reason: errorMessage(failure), calls: waiting.length }, 'append to the log failed');
      if (!isRetryable(failure)) {
        for (const call of waiting) call.resolve({ failed: 'unavailable', outcomeUnknown: call.maybeStored });
        return;
      }
      await sleep(backoffMs(failures, BACKOFF));
    }
  }

  /**
   * Appends the records once. Resolves with the error if they were not, or possibly not, appended.
   */
  private async appendOnce(calls: readonly PublishCall[]): Promise<unknown> {
    let sent: PublishCall[] = [];
    const attempt = await this.session.append(
      () => {
        // A call that timed out while connecting has reported that nothing was sent, so its records
        // are not sent.
        sent = calls.filter((call) => !call.settled);
        for (const call of sent) call.inFlight = true;
        return sent.flatMap((call) => call.records);
      },
      Math.max(...calls.map((call) => call.deadlineAtMs)),
    );
    const abandoned = sent.filter((call) => call.settled);
    for (const call of sent) {
      call.inFlight = false;
      if ('effect' in attempt && attempt.effect === 'unknown') call.maybeStored = true;
    }
    for (const call of abandoned) this.memory.give(call.tenantId, call.bytes);
    if ('effect' in attempt) return attempt.error;
    observeBatches(sent);
    settleAppended(sent, attempt.appended.offsets);
    this.notifyReaders(attempt.appended);
    return undefined;
  }

  private notifyReaders({ ranges, appendedAt }: Appended): void {
    for (const { topic, partition, records, first } of ranges) {
      if (first === undefined) continue;
      this.recent.add({ topic, partition, records, first, appendedAtMs: appendedAt.getTime() });
      this.watch.appended(topic, partition, first + BigInt(records.length));
    }
  }
}

function observeBatches(calls: readonly PublishCall[]): void {
  const sizes = new Map<string, { records: number; bytes: number }>();
  for (const { topic, records, bytes } of calls) {
    const before = sizes.get(topic) ?? { records: 0, bytes: 0 };
    sizes.set(topic, { records: before.records + records.length, bytes: before.bytes + bytes });
  }
  for (const [topic, { records, bytes }] of sizes) observeBatch(topic, records, bytes);
}

/**
 * Returns whether the append may be retried. Errors without an SQLSTATE are those of connections.
 */
function isRetryable(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  return sqlState === undefined || isTransient(sqlState);
}
