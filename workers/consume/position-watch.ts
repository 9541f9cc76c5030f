import type { Clock } from '../../shared/clock.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { type WatchedPosition, watchPositions } from '../sql/watch-positions.ts';
import type { TopicConsumer } from './consume.ts';
import { classifyFault } from './faults.ts';

export interface PositionWatchDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly consumers: readonly Pick<TopicConsumer, 'topic' | 'standing' | 'askStart'>[];
}

/** Notices positions that another hand changed under an idle worker: a command, or a database that was put back. */
export interface PositionWatch {
  /** Why the positions are not known to be what this process believes, in words. */
  problem(): string | undefined;
  /** Compares now. */
  look(): Promise<void>;
  close(): Promise<void>;
}

const EVERY_MS = 5000;
const DEADLINE_MS = 5000;
/** A question that has waited for so long is told of. */
const SLOW_AFTER_MS = 2000;

/** One statement for all topics of the process; where a partition stands elsewhere, its reader asks for its start anew. */
export function startPositionWatch({ pool, clock, consumers }: PositionWatchDeps): PositionWatch {
  let askedMs: number | undefined;
  let unansweredSinceMs: number | undefined;
  let refused: string | undefined;
  let looking: Promise<void> | undefined;

  async function ask(): Promise<void> {
    askedMs = clock.nowMs();
    const before = consumers.map((consumer) => ({ consumer, standing: consumer.standing() }));
    try {
      const topics = consumers.map(({ topic }) => topic);
      const rows = await watchPositions(pool, topics, DEADLINE_MS);
      for (const { consumer, standing } of before) compare(consumer, standing, rows);
      refused = undefined;
      unansweredSinceMs = undefined;
    } catch (error) {
      unansweredSinceMs ??= askedMs;
      refused = classifyFault(error).text;
    } finally {
      askedMs = undefined;
    }
  }

  function compare(
    consumer: PositionWatchDeps['consumers'][number],
    before: ReturnType<TopicConsumer['standing']>,
    rows: readonly WatchedPosition[],
  ): void {
    const now = consumer.standing();
    const ofTopic = rows.filter(({ topic }) => topic === consumer.topic);
    for (const [partition, believed] of before) {
      const row = ofTopic.find((found) => found.partition === partition);
      const generation = row?.generation ?? ofTopic[0]?.topicGeneration;
      const unchanged =
        generation === believed.generation &&
        ofTopic[0]?.topicGeneration === believed.generation &&
        (row?.nextOffset ?? 0n) === believed.nextOffset;
      // What it stored meanwhile, or stores now, is compared by its transactions.
      if (!unchanged && now.get(partition)?.nextOffset === believed.nextOffset) consumer.askStart(partition);
    }
  }

  function look(): Promise<void> {
    looking ??= ask().finally(() => {
      looking = undefined;
    });
    return looking;
  }

  const timer = setInterval(look, EVERY_MS).unref();
  return {
    look,
    problem() {
      const sinceMs = unansweredSinceMs ?? askedMs;
      const waitedMs = sinceMs === undefined ? 0 : clock.nowMs() - sinceMs;
      if (askedMs !== undefined && waitedMs >= SLOW_AFTER_MS) {
        return `the database has not answered for ${Math.floor(waitedMs / 1000)} s`;
      }
      return refused;
    },
    async close() {
      clearInterval(timer);
      await looking;
    },
  };
}
