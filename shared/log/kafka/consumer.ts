import { AppError } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { ConsumerOptions, ConsumerStatus, LogConsumer, PartitionBounds } from '../log.ts';
import type { KafkaBoundsWatch, TopicBounds } from './bounds-watch.ts';
import type { KafkaConnection } from './client.ts';
import { createOffsetCommits, type OffsetCommits } from './commits.ts';
import { leaveGroup } from './leave.ts';
import { type Member, type MemberTimes, startMember } from './member.ts';
import { createPartitionReader, type PartitionReader } from './partition-reader.ts';

const REBUILD_MIN_MS = 100;
const REBUILD_MAX_MS = 2_000;
/** A member that was in its group for so long starts the backoff anew. */
const STABLE_AFTER_MS = 3_000;

/** What the consumer needs besides its options. */
export interface KafkaConsumerDependencies {
  readonly connection: KafkaConnection;
  readonly times: MemberTimes;
  bounds(topic: string, partition: number): Promise<PartitionBounds>;
  readonly watch: Pick<KafkaBoundsWatch, 'follow'>;
}

/**
 * A consumer that is always there: whenever its member of the group ends, for whatever reason, the next one is started.
 * Each assignment makes a new reader for every partition, which asks for its start; the readers of partitions that went
 * to others are aborted, and only the present readers' offsets are committed.
 */
export function createKafkaConsumer(
  options: ConsumerOptions,
  dependencies: KafkaConsumerDependencies,
): LogConsumer {
  const { connection, times } = dependencies;
  const logger: Logger = connection.logger.child({ topic: options.topic, group: options.group });
  let readers = new Map<number, PartitionReader>();
  /** The last reader's end of each partition that was given back. */
  const ending = new Map<number, Promise<void>>();
  /** Readers whose handler may still run, present ones and those of earlier assignments. */
  const unfinished = new Set<PartitionReader>();
  let member: Member | undefined;
  let commits: OffsetCommits | undefined;
  let joined = false;
  let joinedAtMs: number | undefined;
  /** A member of ours that crashed and is perhaps still counted in the group. */
  let lostMemberId: string | undefined;
  let problem: string | undefined = 'not connected yet';
  let closing = false;
  let skipBackoff: (() => void) | undefined;

  /** Partitions of which nobody could say what they hold, though their readers wait for more, in how many looks in a row. */
  const unread = new WeakMap<PartitionReader, { readonly looks: number; readonly reason: string }>();

  async function run(): Promise<void> {
    for (let failures = 0; !closing; failures++) {
      const reason = await live();
      if (closing) return;
      problem = reason;
      if (joinedAtMs !== undefined && performance.now() - joinedAtMs > STABLE_AFTER_MS) failures = 0;
      joinedAtMs = undefined;
      logger.warn(
        { reason, failures },
        'consumer is not in its group and joins again; where it does not get in, check the brokers of KAFKA_BROKERS',
      );
      await backoff(failures);
      if (lostMemberId !== undefined && (await leaveGroup(connection, options.group, lostMemberId))) {
        lostMemberId = undefined;
      }
    }
  }

  /** One member's life; resolves with why it ended. */
  async function live(): Promise<string> {
    const current = startMember(connection, options.topic, options.group, times, {
      assigned: (partitions) => assign(current, partitions),
      fetched: (partition, fetched) => readers.get(partition)?.offer(fetched) ?? false,
    });
    member = current;
    const reason = await current.ended;
    lostMemberId = current.memberId() ?? lostMemberId;
    joined = false;
    retireAll(false);
    return reason;
  }

  function assign(current: Member, partitions: readonly number[]): void {
    commits?.stop();
    const before = readers;
    const kept = new Set(partitions);
    for (const [partition, reader] of before) retire(partition, reader, !kept.has(partition));
    readers = new Map();
    if (closing) return;
    commits = createOffsetCommits(current, logger);
    for (const partition of partitions) readers.set(partition, read(current, commits, partition));
    joined = true;
    joinedAtMs ??= performance.now();
    problem = undefined;
    logger.info({ partitions }, 'consumer joined its group');
  }

  function read(current: Member, currentCommits: OffsetCommits, partition: number): PartitionReader {
    const previous = ending.get(partition) ?? Promise.resolve();
    const source = {
      bounds: (wanted: number) => dependencies.bounds(options.topic, wanted),
      seek: current.seek,
      pause: current.pause,
      resume: current.resume,
      handled: currentCommits.mark,
    };
    const reader = createPartitionReader(partition, options, source, logger, previous);
    unfinished.add(reader);
    void reader.done.finally(() => unfinished.delete(reader));
    return reader;
  }

  function retire(partition: number, reader: PartitionReader, abort: boolean): void {
    reader.retire(abort);
    ending.set(partition, reader.done);
  }

  function retireAll(abort: boolean): void {
    commits?.stop();
    for (const [partition, reader] of readers) retire(partition, reader, abort);
    readers = new Map();
  }

  /** From the second look on: an election takes a moment. */
  function noteUnread(partition: number, reader: PartitionReader, { message }: AppError): void {
    const looks = (unread.get(reader)?.looks ?? 0) + 1;
    unread.set(reader, { looks, reason: message });
    if (looks === 2) {
      logger.warn({ topic: options.topic, partition, reason: message }, 'partition is not read');
    }
  }

  /** Whoever has read on meanwhile is not out of bounds: only where nothing moved is the answer compared. */
  function lookAtBounds(): (bounds: TopicBounds) => void {
    const before = [...readers].map(([partition, reader]) => ({
      partition,
      reader,
      offset: reader.fetchOffset(),
    }));
    return (bounds) => {
      for (const { partition, reader, offset } of before) {
        if (offset === undefined || reader.fetchOffset() !== offset) {
          unread.delete(reader);
          continue;
        }
        const found = bounds?.get(partition);
        if (found instanceof AppError) {
          noteUnread(partition, reader, found);
          continue;
        }
        unread.delete(reader);
        if (!found || offset < found.earliest || offset > found.latest) reader.askStart();
        else reader.noteEnd(found.latest);
      }
    };
  }

  function backoff(failures: number): Promise<void> {
    return new Promise((resolve) => {
      const delayMs = Math.min(REBUILD_MIN_MS * 2 ** Math.min(failures, 10), REBUILD_MAX_MS);
      const timer = setTimeout(resolve, delayMs * (0.75 + Math.random() * 0.25));
      skipBackoff = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  function status(): ConsumerStatus {
    const stopped = new Map<number, string>();
    let lag = 0n;
    for (const [partition, reader] of readers) {
      const { looks, reason: seen } = unread.get(reader) ?? { looks: 0, reason: undefined };
      const reason = reader.stoppedBecause() ?? (looks > 1 ? seen : undefined);
      if (reason !== undefined) stopped.set(partition, reason);
      lag += reader.lag();
    }
    return { joined, partitions: [...readers.keys()].sort((a, b) => a - b), stopped, lag, problem };
  }

  const unfollow = dependencies.watch.follow(options.topic, lookAtBounds);
  const running = run();
  let closed: Promise<void> | undefined;

  async function close(): Promise<void> {
    closing = true;
    unfollow();
    skipBackoff?.();
    // Also those whose member is gone: their handlers may wait for a database that is away.
    for (const reader of unfinished) reader.retire(true);
    await Promise.all([...unfinished].map(({ done }) => done));
    await commits?.flush();
    await member?.end();
    await running;
  }

  return {
    status,
    askStart: (partition) => readers.get(partition)?.askStart(),
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}
