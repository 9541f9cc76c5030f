import { singleFlight } from '../../async.ts';
import type { AskedBounds } from './bounds.ts';

/** What the partitions of a topic hold; undefined where the topic does not exist. */
export type TopicBounds = AskedBounds | undefined;

/** Looks regularly at what the topics that somebody follows hold. */
export interface KafkaBoundsWatch {
  /** `look` is called before each question to the brokers, and what it returns with the answer. The returned function ends it. */
  follow(topic: string, look: () => (bounds: TopicBounds) => void): () => void;
  close(): Promise<void>;
}

const INTERVAL_MS = 5_000;

/**
 * A topic that was deleted or made anew sends its readers nothing while nobody writes: kafkajs starts at its first record
 * by itself, and says so to nobody. One question for all topics of the process.
 */
export function createKafkaBoundsWatch(
  ask: (topics: readonly string[]) => Promise<ReadonlyMap<string, AskedBounds>>,
): KafkaBoundsWatch {
  const followers = new Map<string, Set<() => (bounds: TopicBounds) => void>>();
  let timer: NodeJS.Timeout | undefined;

  const look = singleFlight(async () => {
    const waiting = [...followers].flatMap(([topic, looks]) =>
      [...looks].map((begin) => ({ topic, tell: begin() })),
    );
    try {
      const found = await ask([...followers.keys()]);
      for (const { topic, tell } of waiting) tell(found.get(topic));
    } catch {
      // Brokers that do not answer are noticed by those who read from them.
    }
  });

  return {
    follow(topic, begin) {
      const looks = followers.get(topic) ?? new Set();
      followers.set(topic, looks.add(begin));
      timer ??= setInterval(() => void look(), INTERVAL_MS).unref();
      return () => {
        looks.delete(begin);
        if (looks.size === 0) followers.delete(topic);
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
