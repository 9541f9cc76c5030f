import { setTimeout as delay } from 'node:timers/promises';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { Pool } from '../../postgres/pool.ts';
import type { PartitionBounds } from '../log.ts';
import { readBounds } from './sql/bounds.ts';

/** Knows the bounds of the partitions that somebody follows, as new as the last poll or the last append of this process. */
export interface BoundsWatch {
  /** Starts watching a topic; the returned function ends it. */
  follow(topic: string): () => void;
  bounds(topic: string, partition: number): PartitionBounds | undefined;
  /**
   * Resolves once the partition holds the offset (any below 0: once its bounds are known), ends below it (it was made
   * anew), or the signal is aborted.
   */
  reached(topic: string, partition: number, offset: bigint, signal: AbortSignal): Promise<void>;
  /** Tells of records that this process appended, so that nobody waits for the next poll. */
  appended(topic: string, partition: number, latest: bigint): void;
  /** Why the last poll failed; undefined when it did not. */
  problem(): string | undefined;
  close(): Promise<void>;
}

/** Options of {@link createBoundsWatch}. */
export interface BoundsWatchOptions {
  readonly pool: Pool;
  readonly logger: Logger;
  readonly pollIntervalMs: number;
}

interface Waiter {
  readonly partition: string;
  readonly offset: bigint;
  resolve(): void;
}

/** Milliseconds between polls while the database does not answer. */
const RETRY_MS = 1000;

/** One query a poll for all partitions of all topics that are followed, however many read them; none while none does. */
export function createBoundsWatch(options: BoundsWatchOptions): BoundsWatch {
  const followers = new Map<string, number>();
  const known = new Map<string, PartitionBounds>();
  const waiters = new Set<Waiter>();
  const ending = new AbortController();
  let polling: Promise<void> | undefined;
  let problem: string | undefined;

  function learn(partition: string, bounds: PartitionBounds): void {
    known.set(partition, bounds);
    for (const waiter of waiters) {
      if (waiter.partition === partition && waiter.offset !== bounds.latest) waiter.resolve();
    }
  }

  async function poll(): Promise<void> {
    while (followers.size > 0 && !ending.signal.aborted) {
      const before = new Map([...known].map(([partition, { latest }]) => [partition, latest]));
      try {
        for (const row of await readBounds(options.pool, [...followers.keys()])) {
          if (!followers.has(row.topic)) continue;
          const partition = nameOf(row.topic, row.partition);
          // An append of this process may have been told while the answer was on its way.
          const told = known.get(partition)?.latest;
          const latest = told === before.get(partition) ? row.next_offset : later(told, row.next_offset);
          learn(partition, { earliest: row.first_offset, latest });
        }
        problem = undefined;
      } catch (error) {
        if (problem === undefined)
          options.logger.warn({ reason: errorMessage(error) }, 'the event log cannot be polled');
        problem = `the database does not answer: ${errorMessage(error)}`;
      }
      const pauseMs =
        problem === undefined ? options.pollIntervalMs : Math.max(RETRY_MS, options.pollIntervalMs);
      await delay(pauseMs, undefined, { signal: ending.signal }).catch(() => undefined);
    }
    polling = undefined;
  }

  return {
    follow(topic) {
      followers.set(topic, (followers.get(topic) ?? 0) + 1);
      polling ??= poll();
      return () => {
        const others = (followers.get(topic) ?? 1) - 1;
        if (others > 0) return void followers.set(topic, others);
        followers.delete(topic);
        // Nobody keeps these up to date from here on.
        for (const name of known.keys()) if (name.endsWith(` ${topic}`)) known.delete(name);
      };
    },

    bounds: (topic, partition) => known.get(nameOf(topic, partition)),

    reached(topic, partition, offset, signal) {
      const name = nameOf(topic, partition);
      const bounds = known.get(name);
      if (signal.aborted || (bounds !== undefined && offset !== bounds.latest)) return Promise.resolve();
      return new Promise((resolve) => {
        const waiter: Waiter = {
          partition: name,
          offset,
          resolve() {
            waiters.delete(waiter);
            signal.removeEventListener('abort', waiter.resolve);
            resolve();
          },
        };
        waiters.add(waiter);
        signal.addEventListener('abort', waiter.resolve, { once: true });
      });
    },

    appended(topic, partition, latest) {
      const name = nameOf(topic, partition);
      const bounds = known.get(name);
      if (bounds !== undefined && bounds.latest < latest) learn(name, { ...bounds, latest });
    },

    problem: () => problem,

    async close() {
      ending.abort();
      await polling;
    },
  };
}

function later(one: bigint | undefined, other: bigint): bigint {
  return one !== undefined && one > other ? one : other;
}

function nameOf(topic: string, partition: number): string {
  return `${partition} ${topic}`;
}
