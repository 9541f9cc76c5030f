import { singleFlight } from '../../async.ts';
import type { FetchedBounds } from './bounds.ts';

/** The bounds of a topic's partitions; undefined if the topic does not exist. */
export type TopicBounds = FetchedBounds | undefined;

/** Begins a check, and returns the function that completes the check with the bounds. */
export type BeginCheck = () => (bounds: TopicBounds) => void;

/** Reads the bounds of followed topics regularly. */
export interface KafkaBoundsWatch {
  /**
   * Follows a topic: calls `begin` before each request to the brokers, and then the function that
   * `begin` returned. Returns a function that stops following.
   */
  follow(topic: string, begin: BeginCheck): () => void;
  close(): Promise<void>;
}

const INTERVAL_MS = 5_000;

/**
 * Finds topics that were deleted or recreated. Without this check, their readers notice nothing
 * until a record is written, and kafkajs then silently restarts at the first record. One request
 * serves all topics of the process.
 */
export function createKafkaBoundsWatch(
  ask: (topics: readonly string[]) => Promise<ReadonlyMap<string, FetchedBounds>>,
): KafkaBoundsWatch {
  const followers = new Map<string, Set<BeginCheck>>();
  let timer: NodeJS.Timeout | undefined;

  const look = singleFlight(async () => {
    const begun = [...followers].flatMap(([topic, checks]) =>
      [...checks].map((begin) => ({ topic, complete: begin() })),
    );
    try {
      const found = await ask([...followers.keys()]);
      for (const { topic, complete } of begun) complete(found.get(topic));
    } catch {
      // The consumers already report brokers that do not respond.
    }
  });

  return {
    follow(topic, begin) {
      const checks = followers.get(topic) ?? new Set();
      followers.set(topic, checks.add(begin));
      timer ??= setInterval(() => void look(), INTERVAL_MS).unref();
      return () => {
        checks.delete(begin);
        if (checks.size === 0) followers.delete(topic);
        if (followers.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
    async close() {
      clearInterval(timer);
      await look.idle();
    },
  };
}
