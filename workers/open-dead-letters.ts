import { DEAD_LETTER_REASONS } from '../shared/contracts/dead-letter.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { databaseGauge, type Sample } from './database-gauge.ts';
import { countOpenDeadLetters } from './sql/dead-letters.ts';

/** Dead letters that are counted at most. */
const OPEN_MAX = 10_000;

const topics = new Set<string>();

const gauge = databaseGauge({
  name: 'sluice_dead_letters_open',
  help: `Dead letters that were neither replayed nor dropped, by topic and reason. Counted up to ${OPEN_MAX} together. Read from the database at most every 15 s; every worker reports the same, so use max().`,
  labelNames: ['topic', 'reason'],
  async read(db) {
    const none = [...topics].flatMap((topic) =>
      DEAD_LETTER_REASONS.map((reason): Sample => ({ labels: { topic, reason }, value: 0 })),
    );
    const counted = await countOpenDeadLetters(db, OPEN_MAX);
    return [...none, ...counted.map(({ count, ...labels }) => ({ labels, value: count }))];
  },
});

/**
 * Reports the open dead letters when they are scraped, 0 for topics of this process without any.
 * Returns the function that ends this.
 */
export function reportOpenDeadLetters(
  pool: Pool,
  consumers: readonly { readonly topic: string }[],
  nowMs: () => number,
): () => void {
  for (const { topic } of consumers) topics.add(topic);
  const end = gauge(pool, nowMs);
  return () => {
    for (const { topic } of consumers) topics.delete(topic);
    end();
  };
}
