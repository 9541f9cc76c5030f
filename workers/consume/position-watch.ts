import { singleFlight } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { type WatchedPosition, watchPositions } from '../sql/watch-positions.ts';
import type { TopicConsumer } from './consume.ts';
import { classifyFault } from './faults.ts';
import type { StoredPosition } from './partition-consumer.ts';

export interface PositionWatchDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly consumers: readonly WatchedConsumer[];
}

type WatchedConsumer = Pick<TopicConsumer, 'topic' | 'storedPositions' | 'restart'>;

/** Detects positions that a command, or a restored database, changed under an idle worker. */
export interface PositionWatch {
  /** Why the positions could not be compared, as text for operators; undefined when they were. */
  problem(): string | undefined;
  /** Compares immediately; calls share a comparison in progress. */
  check(): Promise<void>;
  close(): Promise<void>;
}

const INTERVAL_MS = 5000;
const DEADLINE_MS = 5000;
/** A query without an answer for this long is a problem. */
const SLOW_AFTER_MS = 2000;

/** Compares all topics of the process by one statement, and restarts the partitions whose position differs. */
export function startPositionWatch({ pool, clock, consumers }: PositionWatchDeps): PositionWatch {
  let askedMs: number | undefined;
  let unansweredSinceMs: number | undefined;
  let refused: string | undefined;

  async function compareAll(): Promise<void> {
    askedMs = clock.nowMs();
    const before = consumers.map((consumer) => ({ consumer, positions: consumer.storedPositions() }));
    try {
      const topics = consumers.map(({ topic }) => topic);
      const rows = await watchPositions(pool, topics, DEADLINE_MS);
      for (const { consumer, positions } of before) compare(consumer, positions, rows);
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
    consumer: WatchedConsumer,
    before: ReadonlyMap<number, StoredPosition>,
    rows: readonly WatchedPosition[],
  ): void {
    const now = consumer.storedPositions();
    const ofTopic = rows.filter(({ topic }) => topic === consumer.topic);
    for (const [partition, believed] of before) {
      const row = ofTopic.find((found) => found.partition === partition);
      const generation = row?.generation ?? ofTopic[0]?.topicGeneration;
      const unchanged =
        generation === believed.generation &&
        ofTopic[0]?.topicGeneration === believed.generation &&
        (row?.nextOffset ?? 0n) === believed.nextOffset;
      // A partition that stored something meanwhile, or is busy, compares its position in its transactions.
      if (!unchanged && now.get(partition)?.nextOffset === believed.nextOffset) consumer.restart(partition);
    }
  }

  const check = singleFlight(compareAll);
  const timer = setInterval(() => check(), INTERVAL_MS).unref();
  return {
    check: () => check(),
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
      await check.idle();
    },
  };
}
