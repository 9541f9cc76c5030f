import { type SingleFlight, singleFlight } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { type WatchedPosition, watchPositions } from '../sql/log-positions.ts';
import type { TopicConsumer } from './consume.ts';
import { classifyFault } from './faults.ts';
import type { StoredPosition } from './position-fencing.ts';

export interface PositionWatchDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly consumers: readonly WatchedConsumer[];
}

type WatchedConsumer = Pick<TopicConsumer, 'topic' | 'storedPositions' | 'restart'>;

const INTERVAL_MS = 5000;
const DEADLINE_MS = 5000;
/** Milliseconds without an answer after which a query is reported as a problem. */
const SLOW_AFTER_MS = 2000;

/**
 * Detects stored positions that changed while a worker was idle, by a command or a restored
 * database. Compares the positions of all topics of the process in one statement, and restarts
 * partitions whose positions differ.
 */
export class PositionWatch {
  readonly #deps: PositionWatchDeps;
  readonly #compareAll: SingleFlight<void, void>;
  readonly #timer: NodeJS.Timeout;
  #askedMs: number | undefined;
  #unansweredSinceMs: number | undefined;
  /** The reason why the last query failed. */
  #failure: string | undefined;

  constructor(deps: PositionWatchDeps) {
    this.#deps = deps;
    this.#compareAll = singleFlight(() => this.#compare());
    this.#timer = setInterval(() => this.check(), INTERVAL_MS).unref();
  }

  /**
   * Returns why the positions could not be compared, as text for operators; undefined after a
   * success.
   */
  problem(): string | undefined {
    const sinceMs = this.#unansweredSinceMs ?? this.#askedMs;
    const waitedMs = sinceMs === undefined ? 0 : this.#deps.clock.nowMs() - sinceMs;
    if (this.#askedMs !== undefined && waitedMs >= SLOW_AFTER_MS) {
      return `the database has not answered for ${Math.floor(waitedMs / 1000)} s`;
    }
    return this.#failure;
  }

  /** Compares immediately; concurrent calls share one comparison. Never rejects. */
  check(): Promise<void> {
    return this.#compareAll();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#compareAll.idle();
  }

  async #compare(): Promise<void> {
    const { pool, clock, consumers } = this.#deps;
    this.#askedMs = clock.nowMs();
    const before = consumers.map((consumer) => ({ consumer, positions: consumer.storedPositions() }));
    try {
      const topics = consumers.map(({ topic }) => topic);
      const rows = await watchPositions(pool, topics, DEADLINE_MS);
      for (const { consumer, positions } of before) restartChanged(consumer, positions, rows);
      this.#failure = undefined;
      this.#unansweredSinceMs = undefined;
    } catch (error) {
      this.#unansweredSinceMs ??= this.#askedMs;
      this.#failure = classifyFault(error).text;
    } finally {
      this.#askedMs = undefined;
    }
  }
}

/**
 * Restarts the partitions of a topic whose stored position differs from the worker's position
 * before the query.
 */
function restartChanged(
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
    // A partition that is busy, or stored records meanwhile, compares its position in its own
    // transactions.
    if (!unchanged && now.get(partition)?.nextOffset === believed.nextOffset) consumer.restart(partition);
  }
}
