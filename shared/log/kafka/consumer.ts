import { backoffMs, sleep } from '../../async.ts';
import type { Logger } from '../../logging.ts';
import type { Backlog, ConsumerOptions, ConsumerStatus, LogConsumer, PartitionBounds } from '../log.ts';
import type { KafkaBoundsWatch } from './bounds-watch.ts';
import type { KafkaConnection } from './client.ts';
import { OffsetCommits } from './commits.ts';
import { leaveGroup } from './leave.ts';
import { type Member, type MemberTimes, startMember } from './member.ts';
import { OffsetCheck } from './offset-check.ts';
import { PartitionReader } from './partition-reader.ts';

const REJOIN_BACKOFF = { minMs: 100, maxMs: 2_000 };
/** Milliseconds of group membership after which the backoff is reset. */
const STABLE_AFTER_MS = 3_000;

export interface KafkaConsumerDependencies {
  readonly connection: KafkaConnection;
  readonly times: MemberTimes;
  bounds(topic: string, partition: number): Promise<PartitionBounds>;
  readonly watch: Pick<KafkaBoundsWatch, 'follow'>;
}

/**
 * Consumes one topic in a consumer group. Whenever its group member ends, starts the next one. Each
 * assignment creates a new reader for every partition, which asks for the partition's start offset.
 * Readers of partitions that moved to other members are aborted. Only the offsets of current
 * readers are committed.
 */
export class KafkaConsumer implements LogConsumer {
  private readonly options: ConsumerOptions;
  private readonly dependencies: KafkaConsumerDependencies;
  private readonly logger: Logger;
  private readonly closing = new AbortController();
  private readonly check: OffsetCheck;
  private readonly unfollow: () => void;
  private readonly running: Promise<void>;
  private member: Member | undefined;
  private commits: OffsetCommits | undefined;
  /** The readers of the current assignment. */
  private readers = new Map<number, PartitionReader>();
  /** The end of the last retired reader, by partition. */
  private readonly ending = new Map<number, Promise<void>>();
  /** Readers of this and earlier assignments whose handler may still run. */
  private readonly unfinished = new Set<PartitionReader>();
  private isJoined = false;
  private joinedAtMs: number | undefined;
  /** The id of a member that crashed and may still belong to the group. */
  private lostMemberId: string | undefined;
  private problem: string | undefined = 'not connected yet';
  private closed: Promise<void> | undefined;

  constructor(options: ConsumerOptions, dependencies: KafkaConsumerDependencies) {
    this.options = options;
    this.dependencies = dependencies;
    this.logger = dependencies.connection.logger.child({ topic: options.topic, group: options.group });
    this.check = new OffsetCheck(options.topic, this.logger);
    this.unfollow = dependencies.watch.follow(options.topic, () => this.check.begin(this.readers));
    this.running = this.run();
  }

  status(): ConsumerStatus {
    const stopped = new Map<number, string>();
    let lag = 0n;
    for (const [partition, reader] of this.readers) {
      const reason = reader.stoppedBecause() ?? this.check.problemOf(reader);
      if (reason !== undefined) stopped.set(partition, reason);
      lag += reader.lag();
    }
    const partitions = [...this.readers.keys()].sort((a, b) => a - b);
    return { joined: this.isJoined, partitions, stopped, lag, problem: this.problem };
  }

  backlog(partition: number, from: bigint): Backlog | undefined {
    return this.readers.get(partition)?.backlog(from);
  }

  restart(partition: number): void {
    this.readers.get(partition)?.restart();
  }

  close(): Promise<void> {
    this.closed ??= this.end();
    return this.closed;
  }

  private async end(): Promise<void> {
    this.closing.abort();
    this.unfollow();
    // Includes readers of earlier members: their handlers may wait for a database that is down.
    for (const reader of this.unfinished) reader.retire(true);
    await Promise.all([...this.unfinished].map(({ done }) => done));
    await this.commits?.flush();
    await this.member?.end();
    await this.running;
  }

  /** Keeps a member in the group until the consumer closes. */
  private async run(): Promise<void> {
    const { signal } = this.closing;
    for (let failures = 1; !signal.aborted; failures++) {
      const reason = await this.runMember();
      if (signal.aborted) return;
      this.problem = reason;
      const joinedMs = this.joinedAtMs === undefined ? 0 : performance.now() - this.joinedAtMs;
      if (joinedMs > STABLE_AFTER_MS) failures = 1;
      this.joinedAtMs = undefined;
      this.logger.warn({ reason, failures }, 'consumer left its group, rejoining');
      await sleep(backoffMs(failures, REJOIN_BACKOFF), { signal });
      await this.removeLostMember();
    }
  }

  /** Runs one member. Resolves with the reason why the member ended. */
  private async runMember(): Promise<string> {
    const { connection, times } = this.dependencies;
    const { topic, group } = this.options;
    const member = startMember(connection, topic, group, times, {
      assigned: (partitions) => this.assign(member, partitions),
      fetched: (partition, fetched) => this.readers.get(partition)?.offer(fetched) ?? false,
    });
    this.member = member;
    const reason = await member.ended;
    this.lostMemberId = member.memberId() ?? this.lostMemberId;
    this.isJoined = false;
    this.commits?.stop();
    for (const [partition, reader] of this.readers) this.retire(partition, reader, false);
    this.readers = new Map();
    return reason;
  }

  private async removeLostMember(): Promise<void> {
    if (this.lostMemberId === undefined) return;
    const { connection } = this.dependencies;
    if (await leaveGroup(connection, this.options.group, this.lostMemberId)) this.lostMemberId = undefined;
  }

  private assign(member: Member, partitions: readonly number[]): void {
    this.commits?.stop();
    const kept = new Set(partitions);
    for (const [partition, reader] of this.readers) this.retire(partition, reader, !kept.has(partition));
    this.readers = new Map();
    if (this.closing.signal.aborted) return;
    const commits = new OffsetCommits(member, this.logger);
    this.commits = commits;
    for (const partition of partitions) this.readers.set(partition, this.read(member, commits, partition));
    this.isJoined = true;
    this.joinedAtMs ??= performance.now();
    this.problem = undefined;
    this.logger.info({ partitions }, 'consumer joined its group');
  }

  private read(member: Member, commits: OffsetCommits, partition: number): PartitionReader {
    const { topic } = this.options;
    const reader = new PartitionReader({
      partition,
      consumer: this.options,
      source: {
        bounds: (wanted) => this.dependencies.bounds(topic, wanted),
        seek: (wanted, offset) => member.seek(wanted, offset),
        pause: (wanted) => member.pause(wanted),
        resume: (wanted) => member.resume(wanted),
        handled: (wanted, nextOffset) => commits.mark(wanted, nextOffset),
      },
      logger: this.logger,
      previous: this.ending.get(partition) ?? Promise.resolve(),
    });
    this.unfinished.add(reader);
    void reader.done.finally(() => this.unfinished.delete(reader));
    return reader;
  }

  private retire(partition: number, reader: PartitionReader, abort: boolean): void {
    reader.retire(abort);
    this.ending.set(partition, reader.done);
  }
}
