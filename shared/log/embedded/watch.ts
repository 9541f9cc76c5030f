import { sleep } from '../../async.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import type { PartitionBounds } from '../log.ts';
import { readBounds, type StoredBounds } from './sql/log-partitions.ts';

export interface BoundsWatchOptions {
  readonly pool: Pool;
  readonly logger: Logger;
  readonly pollIntervalMs: number;
}

/** One consumer that follows a topic. */
interface Follower {
  /** Called once per partition of the topic. */
  onPartition(partition: number): void;
}

interface Waiter {
  readonly partition: string;
  readonly offset: bigint;
  resolve(): void;
}

/** Milliseconds between polls while the database does not answer. */
const RETRY_MS = 1000;

/**
 * Tracks the bounds of all partitions of the topics that consumers follow, as of the last poll or
 * the last append of this process. One query per poll reads the bounds for all consumers. No query
 * runs while no consumer follows a topic.
 */
export class BoundsWatch {
  private readonly options: BoundsWatchOptions;
  private readonly followers = new Map<string, Set<Follower>>();
  /** Bounds by topic, then by partition. A topic has an entry once a poll has read it. */
  private readonly known = new Map<string, Map<number, PartitionBounds>>();
  private readonly waiters = new Set<Waiter>();
  private readonly ending = new AbortController();
  private polling: Promise<void> | undefined;
  private pollProblem: string | undefined;

  constructor(options: BoundsWatchOptions) {
    this.options = options;
  }

  /**
   * Starts watching a topic, and reports each of its partitions once. Returns a function that stops
   * watching.
   */
  follow(topic: string, onPartition: (partition: number) => void): () => void {
    const follower: Follower = { onPartition };
    const followers = this.followers.get(topic) ?? new Set();
    this.followers.set(topic, followers.add(follower));
    for (const partition of this.known.get(topic)?.keys() ?? []) onPartition(partition);
    this.polling ??= this.poll();
    return () => {
      followers.delete(follower);
      if (followers.size > 0 || this.followers.get(topic) !== followers) return;
      this.followers.delete(topic);
      // Without followers, no poll keeps these bounds up to date.
      this.known.delete(topic);
    };
  }

  /** Returns whether the topic's partitions have been read. */
  knows(topic: string): boolean {
    return this.known.has(topic);
  }

  bounds(topic: string, partition: number): PartitionBounds | undefined {
    return this.known.get(topic)?.get(partition);
  }

  /**
   * Waits for an offset of a partition. Resolves when the partition holds that offset, ends below
   * it (the topic was recreated), or the signal is aborted. With an offset below 0, resolves when
   * the partition's bounds are known.
   */
  reached(topic: string, partition: number, offset: bigint, signal: AbortSignal): Promise<void> {
    const bounds = this.bounds(topic, partition);
    if (signal.aborted || (bounds !== undefined && offset !== bounds.latest)) return Promise.resolve();
    return new Promise((resolve) => {
      const waiter: Waiter = {
        partition: nameOf(topic, partition),
        offset,
        resolve: () => {
          this.waiters.delete(waiter);
          signal.removeEventListener('abort', waiter.resolve);
          resolve();
        },
      };
      this.waiters.add(waiter);
      signal.addEventListener('abort', waiter.resolve, { once: true });
    });
  }

  /** Records the end of an append of this process, so that no reader waits for the next poll. */
  appended(topic: string, partition: number, latest: bigint): void {
    const bounds = this.bounds(topic, partition);
    if (bounds !== undefined && bounds.latest < latest) this.learn(topic, partition, { ...bounds, latest });
  }

  /** Returns why the last poll failed; undefined after a success. */
  problem(): string | undefined {
    return this.pollProblem;
  }

  async close(): Promise<void> {
    this.ending.abort();
    await this.polling;
  }

  private async poll(): Promise<void> {
    const { pollIntervalMs } = this.options;
    while (this.followers.size > 0 && !this.ending.signal.aborted) {
      const failed = !(await this.pollOnce());
      const pauseMs = failed ? Math.max(RETRY_MS, pollIntervalMs) : pollIntervalMs;
      await sleep(pauseMs, { signal: this.ending.signal });
    }
    this.polling = undefined;
  }

  /** Polls once. Resolves with whether the database answered. */
  private async pollOnce(): Promise<boolean> {
    const topics = [...this.followers.keys()];
    const before = new Map(topics.map((topic) => [topic, new Map(this.known.get(topic))]));
    try {
      const rows = await readBounds(this.options.pool, topics);
      for (const topic of topics) {
        if (this.followers.has(topic) && !this.known.has(topic)) this.known.set(topic, new Map());
      }
      for (const row of rows) this.learnRow(row, before.get(row.topic)?.get(row.partition)?.latest);
      this.pollProblem = undefined;
      return true;
    } catch (error) {
      const reason = errorMessage(error);
      if (this.pollProblem === undefined) this.options.logger.warn({ reason }, 'event log poll failed');
      this.pollProblem = `the database does not answer: ${reason}`;
      return false;
    }
  }

  /** Stores bounds that a poll read, unless this process appended while the poll was in flight. */
  private learnRow(row: StoredBounds, latestBefore: bigint | undefined): void {
    if (!this.followers.has(row.topic)) return;
    const latestNow = this.bounds(row.topic, row.partition)?.latest;
    const appendedMeanwhile =
      latestNow !== undefined && latestNow !== latestBefore && latestNow > row.nextOffset;
    const latest = appendedMeanwhile ? latestNow : row.nextOffset;
    this.learn(row.topic, row.partition, { earliest: row.firstOffset, latest });
  }

  private learn(topic: string, partition: number, bounds: PartitionBounds): void {
    const partitions = this.known.get(topic);
    if (partitions === undefined) return;
    const isNew = !partitions.has(partition);
    partitions.set(partition, bounds);
    const name = nameOf(topic, partition);
    for (const waiter of this.waiters) {
      if (waiter.partition === name && waiter.offset !== bounds.latest) waiter.resolve();
    }
    if (!isNew) return;
    for (const follower of this.followers.get(topic) ?? []) follower.onPartition(partition);
  }
}

function nameOf(topic: string, partition: number): string {
  return `${partition} ${topic}`;
}
