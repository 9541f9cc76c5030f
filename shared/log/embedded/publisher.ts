import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import { errorCode, errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import { createRateLimitedLog } from '../../rate-limited-log.ts';
import type { OutgoingRecord, Publisher, PublisherOptions, PublishOutcome } from '../log.ts';
import { tenantOfKey } from '../partition.ts';
import { createPublishMemory, type MemoryShare } from '../publish-memory.ts';
import { createTenantLines } from '../tenant-lines.ts';
import { createAppendSession } from './append-session.ts';
import {
  type CallOutcome,
  type PreparedCall,
  type PublishCall,
  prepareCall,
  settleAppended,
} from './call.ts';
import type { AppendedRange } from './sql/append.ts';
import type { BoundsWatch } from './watch.ts';

/** What a publisher needs of its log. */
export interface PublisherContext extends PublisherOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watch: BoundsWatch;
}

/** A statement takes whole calls up to about this size; a larger call goes alone. */
const STATEMENT_BYTES_MAX = 4 * 1024 * 1024;
const BACKOFF_MS = { min: 25, max: 1000 };
/** SQLSTATE classes that time can heal: connection, rollback, resources, object in use, operator, system. */
const HEALING_CLASSES = new Set(['08', '40', '53', '55', '57', '58']);

/**
 * Appends what all concurrent callers want in one statement at a time: while one is under way the next gathers. Where more
 * waits than goes into a statement, tenants take turns. A statement without an answer is sent again within the deadline,
 * before anything newer; where it was stored after all, its records are in the log twice, which consumers tell by their ids.
 */
export function createEmbeddedPublisher(context: PublisherContext): Publisher {
  const { clock, watch } = context;
  const limited = createRateLimitedLog(context.logger);
  const session = createAppendSession(context.pool, clock);
  const queue = createTenantLines<PublishCall>();
  const memory = createPublishMemory(context.bufferedBytesMax);
  let closed = false;
  let draining: Promise<void> | undefined;

  async function publish(topic: string, outgoing: readonly OutgoingRecord[]): Promise<PublishOutcome[]> {
    const prepared = prepareCall(topic, outgoing);
    if (closed) return prepared.outcomes({ failed: 'closed', outcomeUnknown: false });
    if (prepared.records.length === 0) return prepared.outcomes({ appended: new Map() });
    const share = memory.take(tenantOfKey(outgoing[0]!.key), prepared.bytes);
    if (share === undefined) return prepared.outcomes({ failed: 'queue-full', outcomeUnknown: false });
    return prepared.outcomes(await enqueue(topic, prepared, share));
  }

  function enqueue(
    topic: string,
    { records, bytes }: PreparedCall,
    share: MemoryShare,
  ): Promise<CallOutcome> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        call.resolve({ failed: 'timeout', outcomeUnknown: call.inFlight || call.maybeStored });
      }, context.deadlineMs);
      const call: PublishCall = {
        share,
        topic,
        records,
        bytes,
        deadlineAtMs: performance.now() + context.deadlineMs,
        settled: false,
        inFlight: false,
        maybeStored: false,
        resolve(outcome) {
          if (call.settled) return;
          call.settled = true;
          clearTimeout(timer);
          // What is on its way keeps its bytes until the statement ends.
          if (!call.inFlight) release(call);
          resolve(outcome);
        },
      };
      queue.add(call);
      draining ??= drain();
    });
  }

  function release(call: PublishCall): void {
    memory.give(call.share, call.bytes);
    call.records = [];
  }

  async function drain(): Promise<void> {
    // One turn of the event loop, so that callers of the same moment share the first statement.
    await new Promise((resolve) => setImmediate(resolve));
    while (!queue.isEmpty()) await appendCalls(queue.take(STATEMENT_BYTES_MAX));
    draining = undefined;
  }

  /** Appends the calls, again and again until it succeeds or none waits for it any more. */
  async function appendCalls(calls: readonly PublishCall[]): Promise<void> {
    for (let backoffMs = BACKOFF_MS.min; ; backoffMs = Math.min(backoffMs * 2, BACKOFF_MS.max)) {
      const waiting = calls.filter((call) => !call.settled);
      if (waiting.length === 0) return;
      const failure = await appendOnce(waiting);
      if (failure === undefined) return;
      limited.warn(
        { reason: errorMessage(failure), calls: waiting.length },
        'records could not be appended to the log',
      );
      if (!canHeal(failure)) {
        for (const call of waiting) call.resolve({ failed: 'unavailable', outcomeUnknown: call.maybeStored });
        return;
      }
      await delay(backoffMs);
    }
  }

  /** Resolves with the error when the records were not appended, or may not have been. */
  async function appendOnce(calls: readonly PublishCall[]): Promise<unknown> {
    let sent: PublishCall[] = [];
    const attempt = await session.append(
      () => {
        // Who has given up while the connection was made was told that nothing was sent, and so it stays.
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
    for (const call of abandoned) memory.give(call.share, call.bytes);
    if ('effect' in attempt) return attempt.error;
    settleAppended(sent, attempt.ranges);
    tellReaders(attempt.ranges);
    return undefined;
  }

  function tellReaders(ranges: readonly AppendedRange[]): void {
    for (const { topic, partition, first, count } of ranges) {
      if (first !== undefined) watch.appended(topic, partition, first + BigInt(count));
    }
  }

  return {
    publish,
    async close() {
      closed = true;
      await draining;
    },
  };
}

/** Errors without an SQLSTATE are those of connections. */
function canHeal(error: unknown): boolean {
  const code = errorCode(error);
  if (code === undefined || !/^[0-9A-Z]{5}$/.test(code)) return true;
  return HEALING_CLASSES.has(code.slice(0, 2));
}
